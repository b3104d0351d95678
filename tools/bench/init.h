/* The cost of a communicator: the time to create it, and its memory. */
#ifndef BENCH_INIT_H
#define BENCH_INIT_H

#include "options.h"

/*
 * Creates a comm of all ranks options->iterations times and prints the time of the slowest rank.
 * Then prints the memory of one comm on each rank: once created, after short calls, after long
 * ones. It is the proportional set size, which divides shared memory among ranks. Returns an exit
 * status.
 */
int bench_init_run(const struct bench_options *options);

#endif
