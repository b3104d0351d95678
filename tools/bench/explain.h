/* The library's choice for a call, its alternatives, and the costs that decide it. */
#ifndef BENCH_EXPLAIN_H
#define BENCH_EXPLAIN_H

#include "measure.h"

#define BENCH_WAYS_MAX 32

/* rondo_explain() for this run's buffers. Returns the number of ways, or a rondo_error. */
int bench_explain(const struct bench_options *options, rondo_comm *comm, size_t count,
	rondo_type type, struct rondo_way ways[BENCH_WAYS_MAX]);

/* Sets row->algorithm to the library's choice for this row's calls, where it has one. */
int bench_explain_choice(
	const struct bench_options *options, rondo_comm *comm, struct bench_row *row);

/* Prints the possible ways of a call, with their predictions, as comment lines. */
int bench_explain_print(FILE *out, const struct bench_options *options, rondo_comm *comm,
	size_t count, rondo_type type, double measured_us);

/* Prints the costs of messages and memory on this comm, as comment lines. */
int bench_explain_costs(FILE *out, const rondo_comm *comm);

#endif
