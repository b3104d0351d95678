/* The peers of plans: ranks with which a rank exchanges messages, each once, in ascending order. */
#ifndef RD_PEER_SET_H
#define RD_PEER_SET_H

#include "plan/plan.h"

struct rd_peer_set {
	int *at;
	int count;
};

/* Finds the peers of these plans of one rank. RONDO_MEMORY, or 0. */
int rd_peer_set_of_plans(
	struct rd_peer_set *peers, const struct rd_plan *const *plans, int plan_count);
/* All ranks but one. RONDO_MEMORY, or 0. */
int rd_peer_set_of_all(struct rd_peer_set *peers, int rank, int size);
void rd_peer_set_finish(struct rd_peer_set *peers);

#endif
