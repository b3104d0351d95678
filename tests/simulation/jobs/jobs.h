/* Jobs: ranks that make groups of one another, over shared trunks. */
#ifndef SIMULATION_JOBS_H
#define SIMULATION_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "faults.h"

/* Draws the faults, ranks and groups of the seed. Fewer ranks or groups: 0 leaves them. */
void jobs_draw(uint64_t seed, int most_ranks, int most_groups, struct faults *faults, int *ranks,
	int *groups);
/* Runs the job. NULL: it has all properties; else which it lacks. */
const char *jobs_run(uint64_t seed, int ranks, int groups, const struct faults *faults, bool trace);

#endif
