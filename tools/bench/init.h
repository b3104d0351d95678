/* What a communicator costs: the time to make it, and its memory. */
#ifndef BENCH_INIT_H
#define BENCH_INIT_H

#include "options.h"

/*
 * Makes a comm of all ranks options->iterations times and prints the time of the slowest rank, then
 * the memory that one comm takes of each rank (proportional set size: what ranks share is divided
 * among them) once it is made, after short calls and after long ones. Returns an exit status.
 */
int bench_init_run(const struct bench_options *options);

#endif
