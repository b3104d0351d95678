/*
 * Comms of all kinds, made from one another at random: duplicates, splits, and groups of some ranks
 * of an earlier one in a random order, also of groups. All ranks draw the same numbers, so each
 * knows the ranks of every comm, also of those that it is not in.
 */
#ifndef MANY_COMMS_H
#define MANY_COMMS_H

#include <stdbool.h>

#include "draw.h"
#include "world.h"

struct made_comm {
	rondo_comm *comm; /* NULL: this rank is none of its ranks, or has destroyed it */
	int size;
	int ranks[WORLD_MAX]; /* of the world, in the comm's order */
};

struct many_comms {
	struct made_comm *list;
	int count, room;
};

/* Makes comms from env->comm, which is the first, until there are `count`; it is NULL in env then.
   many_comms_free() follows, also after an error. Returns as a body does. */
int many_comms_make(struct rank_env *env, struct many_comms *many, int count, struct draw *from);
/* Destroys those that are left. */
void many_comms_free(struct many_comms *many);

bool made_comm_has(const struct made_comm *made, int rank);

/* One call, which the number chooses, and whose results are checked. The comm's ranks give the same
   number. Returns as a body does; a failed call's error comes with *error, where that is not NULL,
   and no report. */
int made_comm_use(struct rank_env *env, const struct made_comm *made, uint64_t number, int *error);

#endif
