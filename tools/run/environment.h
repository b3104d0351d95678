/*
 * The environment variables of a rank, as torchrun sets them.
 */
#ifndef RUN_ENVIRONMENT_H
#define RUN_ENVIRONMENT_H

#include <stdbool.h>

#include "run/options.h"
#include "run/world.h"

/* Sets the variables of the rank in the calling process. Rank 0 inherits rendezvous_fd; -1: it
   listens itself. */
void environment_set(const struct options *options, const struct world *world, int local_rank,
	int rendezvous_fd);

/* Whether environment_set() gives a program fewer threads than it would have. */
bool environment_limits_threads(const struct options *options);

#endif
