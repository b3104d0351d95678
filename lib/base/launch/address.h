/* Where the ranks of a launcher meet, as far as its variables determine it. */
#ifndef RD_LAUNCH_ADDRESS_H
#define RD_LAUNCH_ADDRESS_H

#include "base/launch/launch.h"

struct rd_launch_address {
	char host[RD_STRING_MAX]; /* rank 0's name or address; "": it runs on this host */
	int port; /* derived from the job, the same on every rank; 0: the library's rule */
	int pmi_fd; /* the ranks exchange both over it (bootstrap/pmi.h); -1: none */
};

/*
 * For a launch of more than one rank. RONDO_SETTING, with a remedy, where ranks are on several
 * hosts, and no variable leads to rank 0's.
 */
int rd_launch_find_address(struct rd_launch_address *address, const struct rd_launch *launch);

#endif
