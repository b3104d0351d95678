/* The cores that the ranks of one host share. */
#ifndef RD_CORES_H
#define RD_CORES_H

#include "bootstrap/member.h"
#include "topo/processors.h"

struct rd_sharing {
	int ranks, cores;
};

/* Counts those of `count` ranks that are on the host of `here`, whose processors these are.
   ranks[count]: their indices in members; NULL: 0 to count - 1. */
struct rd_sharing rd_cores_count(struct rd_processors processors, const struct rd_member *members,
	const int *ranks, int count, const struct rd_place *here);

#endif
