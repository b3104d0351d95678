/*
 * The numbers that a benchmark sends, and the check of its results.
 *
 * Rank and index determine each element, so that the result is exact in any order of ranks:
 * integers whose sum fits the type's mantissa; for products of floats, powers of two with a sign.
 * So results are right or wrong, without tolerance. Numbers repeat after a prime number of
 * elements: a block in the place of another differs almost everywhere.
 */
#ifndef BENCH_VALUES_H
#define BENCH_VALUES_H

#include "rondo.h"

struct bench_values {
	rondo_type type;
	rondo_op op; /* collectives that only move data take RONDO_MAX: its numbers fill the type's
			range */
	int size; /* ranks */
	unsigned seed; /* another seed, other numbers: an earlier round's are wrong now */
};

/* In place of a rank: the combination over all ranks. */
#define BENCH_REDUCED (-1)

/* into[0..count) = elements offset, offset + 1, ... of `rank`, or of BENCH_REDUCED. */
void bench_values_fill(
	const struct bench_values *values, void *into, size_t count, int rank, size_t offset);

/* How many of have[0..count) differ from the numbers of bench_values_fill(). */
size_t bench_values_wrong(
	const struct bench_values *values, const void *have, size_t count, int rank, size_t offset);

/*
 * into[0..count) = the neutral number of the operation (1 for a product, else 0). A reduction in
 * place may then run any number of times without infinities and denormals, which are slow on some
 * processors.
 */
void bench_values_fill_neutral(rondo_type type, rondo_op op, void *into, size_t count);

#endif
