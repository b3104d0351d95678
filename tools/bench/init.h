/* The cost of a communicator by its number of ranks: the time to make it, and its memory. */
#ifndef BENCH_INIT_H
#define BENCH_INIT_H

#include <stddef.h>

#include "options.h"

/*
 * For each number of ranks of options->counts: forks the ranks, which make and destroy a comm
 * options->iterations times. Prints a row with the median times of the slowest rank, and the memory
 * above an idle process: of rank 0, and the most of the others. It is the proportional set size,
 * which divides shared memory among ranks. Then prints how times and memory grow, and draws them
 * into options->svg. Returns an exit status.
 */
int bench_init_run(const struct bench_options *options);

/* The exponent b of the power a * x^b that fits the points best (least squares of logarithms). */
double bench_init_exponent(const double *x, const double *y, size_t count);

#endif
