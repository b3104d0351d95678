/*
 * Compares every algorithm of a collective, and the library's own choice, at each size. They take
 * turns within one run, so that a disturbance meets all of them.
 */
#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H

#include "measure.h"

/*
 * Runs on every rank; `comm` leaves the choice to the library. Rank 0 prints the table to `out`.
 * `send` and `recv` hold options->most bytes. Collective. Returns a rondo_error.
 */
int bench_contest_run(
	FILE *out, const struct bench_options *options, rondo_comm *comm, void *send, void *recv);

/* Sets row->algorithm to the library's choice for this row's calls, where it has one. */
int bench_contest_chosen(
	const struct bench_options *options, rondo_comm *comm, struct bench_row *row);

/* Prints the possible ways of a call, with their predictions, as comment lines. */
int bench_contest_explain(FILE *out, const struct bench_options *options, rondo_comm *comm,
	size_t count, rondo_type type, double measured_us);

/* Prints the costs of messages and memory on this comm, as comment lines. */
int bench_contest_costs(FILE *out, const rondo_comm *comm);

#endif
