/*
 * Compares every algorithm of a collective, and the library's own choice, at each size. They take
 * turns within one run, so that a disturbance meets all of them.
 */
#ifndef BENCH_COMPARE_H
#define BENCH_COMPARE_H

#include "measure.h"

/*
 * Runs on every rank; `comm` leaves the choice to the library. Rank 0 prints the table to `out`.
 * `send` and `recv` hold options->most bytes. Collective. Returns a rondo_error.
 */
int bench_compare_run(
	FILE *out, const struct bench_options *options, rondo_comm *comm, void *send, void *recv);

#endif
