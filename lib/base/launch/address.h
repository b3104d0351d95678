/* Where the ranks of a launcher meet, as far as its variables determine it. */
#ifndef RD_LAUNCH_ADDRESS_H
#define RD_LAUNCH_ADDRESS_H

#include "base/launch/launch.h"
#include <stddef.h>

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

/* Where the pods of an indexed job of Kubernetes meet. */

/*
 * Writes the name of the pod of index 0. A pod's host name is JOB-INDEX. With a headless service
 * (`subdomain`) its full name is JOB-INDEX.SERVICE.NAMESPACE.svc.DOMAIN. RONDO_SETTING, with a
 * remedy, where this host has no such names.
 */
int rd_kubernetes_host(char *host, size_t size, int index);

#endif
