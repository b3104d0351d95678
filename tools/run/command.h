/*
 * The program that a rank executes: itself, or python with it, as torchrun does.
 */
#ifndef RUN_COMMAND_H
#define RUN_COMMAND_H

#include "run/options.h"
#include "run/world.h"

/*
 * Executes the program in the calling process, and returns where that fails, with errno set. Its
 * arguments have the local rank for "${local_rank}". Without options, a script (NAME.py) that the
 * kernel cannot execute is run by python: PYTHON_EXEC, else python3 of PATH.
 */
void command_execute(const struct options *options, int local_rank);

/* Returns the file that command_execute() executes: of python, or of the program. */
const char *command_file(const struct options *options);

/*
 * The environment variables of a rank, as torchrun sets them.
 */

/*
 * Sets the variables of the rank in the calling process. OMP_NUM_THREADS becomes `threads` where
 * the node has several ranks. Rank 0 inherits rendezvous_fd; -1: it listens itself. All inherit
 * secret_fd; -1: there is none.
 */
void environment_set(const struct options *options, const struct world *world, int local_rank,
	int threads, int rendezvous_fd, int secret_fd);

#endif
