/* Ranks as threads of this process. */
#ifndef TRAIN_THREADS_H
#define TRAIN_THREADS_H

#include "train/options.h"
#include "train/world/world.h"

/* The place of a rank. */
struct place_of_rank {
	const struct options *options;
	const struct rondo_config *config; /* NULL: that of the environment */
	int local_rank; /* on this machine */
};

/* A rank from beginning to end; returns its exit status. */
typedef int rank_main(const struct place_of_rank *place);

/*
 * Runs `count` ranks in threads. Process p of a launcher has ranks p * count to p * count + count
 * - 1. Returns the first status that is not 0: a rank that fails aborts the comm, which ends all.
 * local_process: of this process on this machine.
 */
int threads_run(const struct options *options, int count, int local_process, rank_main *run);

#endif
