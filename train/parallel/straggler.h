/*
 * Finds the rank for which the others wait. A collective ends on all ranks at about the same time,
 * so the rank that launched it last spent the least time in it. No clocks of ranks are compared.
 */
#ifndef TRAIN_PARALLEL_STRAGGLER_H
#define TRAIN_PARALLEL_STRAGGLER_H

#include "train/parallel/ddp.h"

struct straggler {
	double busy_s; /* in communication, since the last straggler_find() */
	long buckets;
};

/* Adds the times of a bucket, as ddp_config.timed gets them. */
void straggler_note(struct straggler *straggler, const struct bucket_times *times);
/*
 * *rank: the last to launch; *late_s: seconds a step behind the first, over `steps` steps, which
 * had bucket_count buckets each. Starts again. Collective, of one number a rank.
 */
int straggler_find(struct straggler *straggler, const struct train_world *world, int bucket_count,
	int *rank, double *late_s);

#endif
