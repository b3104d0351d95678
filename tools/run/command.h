/*
 * The program that a rank executes: itself, or python with it, as torchrun does.
 */
#ifndef RUN_COMMAND_H
#define RUN_COMMAND_H

#include "run/options.h"

/*
 * Executes the program in the calling process, and returns where that fails, with errno set. Its
 * arguments have the local rank for "${local_rank}". Without options, a script (NAME.py) that the
 * kernel cannot execute is run by python: PYTHON_EXEC, else python3 of PATH.
 */
void command_execute(const struct options *options, int local_rank);

/* Returns the file that command_execute() executes: of python, or of the program. */
const char *command_file(const struct options *options);

#endif
