/* Random calls on a comm, all checked. */
#ifndef SOAK_CALLS_H
#define SOAK_CALLS_H

#include <stdatomic.h>

#include "draw.h"
#include "world.h"

/*
 * Makes `count` calls on the comm, whose ranks all draw the same: collectives of any type,
 * operation, length and place, blocking or on a stream; transfers in groups; texts; comms that are
 * split off, or made of a group of ranks, used and destroyed. *made counts them as they begin.
 * Returns 0; a negative error of a call; or 1, where a result is wrong, and has been reported.
 */
int calls_make(
	struct rank_env *env, rondo_comm *comm, struct draw from, int count, _Atomic int *made);

#endif
