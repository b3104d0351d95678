/* Worlds of ranks that shrink a comm, for simulate.c. */
#ifndef SIMULATION_SHRINKS_H
#define SIMULATION_SHRINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "faults.h"

/* Draws the number of ranks and the faults of a seed; size: at most so many; 0: as drawn. */
void shrink_draw(uint64_t seed, int size, struct faults *faults, int *drawn);
/* Runs a seed's world with these faults. NULL: it has all properties; else one that it lacks. */
const char *shrink_run(uint64_t seed, int size, const struct faults *faults, bool trace);

#endif
