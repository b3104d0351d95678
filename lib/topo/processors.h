/*
 * How many processors may be busy at once. An affinity mask alone does not say so: containers and
 * schedulers also limit by quotas of time.
 */
#ifndef RD_PROCESSORS_H
#define RD_PROCESSORS_H

#include <stdbool.h>

#include "topo/cpus.h"

struct rd_launch;

/*
 * Returns the number for this process and its children, at least 1: the least of
 *   - `allowed`, the affinity mask;
 *   - the CPU quotas of its control groups, version 1 or 2, and of those above them. They are
 *     rounded down: with 1.5 processors a second busy thread waits for half of each period, and the
 *     first one for it;
 *   - SLURM_CPUS_PER_TASK in a step of Slurm, whose tasks may be bound to nothing.
 * It reads files below `root` ("": this machine).
 */
int rd_processors(const struct rd_cpus *allowed, const char *root);
/* The same with the mask of the calling thread. */
int rd_processors_here(void);

/* The processors of the ranks of a launch on this host. */
struct rd_processors {
	int count;
	bool each; /* of each rank; else they share them */
};

struct rd_processors rd_processors_of_launch(const struct rd_launch *launch);

/* Returns the number that `ranks` ranks share. */
static inline int rd_processors_of_ranks(struct rd_processors processors, int ranks)
{
	return processors.count * (processors.each ? ranks : 1);
}

#endif
