/* The runs of rondo-bench but for the table of a collective, each in the file of its name. */
#ifndef BENCH_RUNS_H
#define BENCH_RUNS_H

#include "options.h"

/*
 * compare.c: compares every algorithm of a collective, and the library's own choice, at each size.
 * They take turns within one run, so that a disturbance meets all of them. Runs on every rank;
 * `comm` leaves the choice to the library. Rank 0 prints the table to `out`. `send` and `recv` hold
 * options->most bytes. Collective. Returns a rondo_error.
 */
int bench_compare_run(
	FILE *out, const struct bench_options *options, rondo_comm *comm, void *send, void *recv);

/*
 * init.c: the cost of a communicator. For each number of ranks of options->counts: forks the ranks,
 * which make and destroy a comm options->iterations times. Prints a row with the median times of
 * the slowest rank, and the memory above an idle process: of rank 0, and the most of the others. It
 * is the proportional set size, which divides shared memory among ranks. Then prints how times and
 * memory grow, and draws them into options->svg. Returns an exit status.
 */
int bench_init_run(const struct bench_options *options);

/* The exponent b of the power a * x^b that fits the points best (least squares of logarithms). */
double bench_init_exponent(const double *x, const double *y, size_t count);

/*
 * replay.c: a recorded program of calls. Reads options->trace (docs/tracing.md), and makes the
 * calls of its first comm in their order on this job's ranks, which must be as many. Before each
 * call a rank computes for as long as it did. Prints a row for each collective and size: the time
 * of a call as recorded, and as measured. A call takes as long as on its slowest rank. Returns an
 * exit status.
 */
int bench_replay_run(const struct bench_options *options);

/* machine/floor.c: prints times no library on this machine can beat. Returns an exit status. */
int bench_floor_run(const struct bench_options *options);

#endif
