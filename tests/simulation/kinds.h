/* The other kinds of worlds, for simulate.c. */
#ifndef SIMULATION_KINDS_H
#define SIMULATION_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "faults.h"

/* ---- world.h: one comm, from its rendezvous to its end --------------------------------------- */

/* Draws the faults, ranks and calls of the seed. Fewer ranks or calls: 0 leaves them. */
void world_draw(uint64_t seed, int most_ranks, int most_calls, struct faults *faults, int *ranks,
	int *calls);
/* Runs the world. NULL: it has all properties; else one that it lacks. */
const char *world_run(uint64_t seed, int ranks, int calls, const struct faults *faults, bool trace);

/* ---- shrink/: ranks that shrink a comm ------------------------------------------------------- */

/* Draws the number of ranks and the faults of a seed; size: at most so many; 0: as drawn. */
void shrink_draw(uint64_t seed, int size, struct faults *faults, int *drawn);
/* Runs a seed's world with these faults. NULL: it has all properties; else one that it lacks. */
const char *shrink_run(uint64_t seed, int size, const struct faults *faults, bool trace);

/* ---- jobs/: ranks that make groups of one another, over shared trunks ------------------------ */

/* Draws the faults, ranks and groups of the seed. Fewer ranks or groups: 0 leaves them. */
void jobs_draw(uint64_t seed, int most_ranks, int most_groups, struct faults *faults, int *ranks,
	int *groups);
/* Runs the job. NULL: it has all properties; else which it lacks. */
const char *jobs_run(uint64_t seed, int ranks, int groups, const struct faults *faults, bool trace);

#endif
