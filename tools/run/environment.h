/*
 * The environment variables of a rank, as torchrun sets them.
 */
#ifndef RUN_ENVIRONMENT_H
#define RUN_ENVIRONMENT_H

#include "run/options.h"
#include "run/world.h"

/*
 * Sets the variables of the rank in the calling process. OMP_NUM_THREADS becomes `threads` where
 * the node has several ranks. Rank 0 inherits rendezvous_fd; -1: it listens itself. All inherit
 * secret_fd; -1: there is none.
 */
void environment_set(const struct options *options, const struct world *world, int local_rank,
	int threads, int rendezvous_fd, int secret_fd);

#endif
