/*
 * The environment variables of a rank, as torchrun sets them.
 */
#ifndef RUN_ENVIRONMENT_H
#define RUN_ENVIRONMENT_H

#include "run/options.h"

struct environment {
	const struct options *options;
	char run_id[33]; /* random, or "none" for several nodes */
	int rendezvous_fd; /* inherited by rank 0; -1: rank 0 listens itself */
};

/* Draws the run id; rendezvous_fd is -1. */
void environment_init(struct environment *environment, const struct options *options);

/* Sets the variables of this rank in the calling process. */
void environment_set(const struct environment *environment, int rank);

#endif
