/*
 * The numbers that a benchmark sends, and the check of what comes back.
 *
 * Every rank's element at every index is a known number, chosen so that the result is exact
 * whatever the order in which ranks are combined: integers whose sum over the ranks fits the type's
 * mantissa; for products of floats, powers of two with a sign. So a result is right or wrong, with
 * no tolerance. Numbers repeat after a prime number of elements, so that a block that lands in
 * another block's place differs almost everywhere.
 */
#ifndef BENCH_VALUES_H
#define BENCH_VALUES_H

#include "rondo.h"

struct bench_values {
	rondo_type type;
	rondo_op op; /* collectives that only move data take RONDO_MAX: its numbers fill the type's
			range */
	int size; /* ranks */
	unsigned seed; /* another seed, other numbers: what an earlier round left behind is not
			  right now */
};

/* In place of a rank: the combination over all ranks. */
#define BENCH_REDUCED (-1)

/* into[0..count) = elements offset, offset + 1, ... of `rank`, or of BENCH_REDUCED. */
void bench_values_fill(
	const struct bench_values *values, void *into, size_t count, int rank, size_t offset);

/* How many of have[0..count) differ from what bench_values_fill() would write. */
size_t bench_values_wrong(
	const struct bench_values *values, const void *have, size_t count, int rank, size_t offset);

/*
 * into[0..count) = the number that the operation leaves as it is (1 for a product, else 0): a
 * reduction in place may then run any number of times and meets no infinity and no denormal, which
 * some processors handle slowly.
 */
void bench_values_fill_neutral(rondo_type type, rondo_op op, void *into, size_t count);

#endif
