/*
 * A contest: every algorithm that can do a collective, and the library's own choice, at each size,
 * in turns within one run; so that what disturbs the machine disturbs them all.
 */
#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H

#include "measure.h"

/*
 * Runs on every rank, `comm` being the library's own choice; rank 0 prints the table to `out`.
 * `send` and `recv` hold options->most bytes. Collective. Returns a rondo_error.
 */
int bench_contest_run(
	FILE *out, const struct bench_options *options, rondo_comm *comm, void *send, void *recv);

/* Sets row->algorithm to what the library runs this row's calls by, where it has a choice. */
int bench_contest_chosen(
	const struct bench_options *options, rondo_comm *comm, struct bench_row *row);

/* The ways in which the library could run a call, and what it expects of each, as comment lines. */
int bench_contest_explain(FILE *out, const struct bench_options *options, rondo_comm *comm,
	size_t count, rondo_type type, double measured_us);

/* What messages and memory cost on this comm, as comment lines. */
int bench_contest_costs(FILE *out, const rondo_comm *comm);

#endif
