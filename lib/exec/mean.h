/*
 * Means (RONDO_AVG): a sum that leaves the type's range does not spoil a mean that lies in it.
 *
 * Where all ranks' elements are at hand, they are added as in a sum, and divided. f16, bf16 and f8
 * are added in f32. Only where that sum is not finite is it made again, of elements that were
 * scaled by 1 / 2^k, the greatest power of two with which no sum leaves the range.
 *
 * Where partial sums travel, those of f32 and f64 are scaled so. A contribution comes as it is,
 * and is scaled when it is added: exactly, unless it becomes subnormal. Narrower floats do not
 * travel as partial sums, but as f32 (comm/widen.h).
 *
 * Sums of n elements have log2(n) exponents more than the type, and all bits of a message's element
 * are in use. So some sums lose bits: the least ones, which n - 1 times the least number bounds. A
 * sum as it is, until one leaves the range, would take a mark for each message and each sum in
 * memory, and lose these bits in a message with a scaled sum all the same.
 */
#ifndef RD_MEAN_H
#define RD_MEAN_H

#include <stdbool.h>

#include "rondo.h"

/* Returns whether the type is a float narrower than f32. */
static inline bool rd_type_is_narrow(rondo_type type)
{
	return type == RONDO_F16 || type == RONDO_BF16 || type == RONDO_F8E4M3 ||
	       type == RONDO_F8E5M2;
}

/* Where rank's elements begin. */
typedef const char *(*rd_mean_source)(const void *context, int rank);

/* into = the mean of all ranks' elements, added in rank order. `into` is no rank's memory, and
   aligned to the type. At least two ranks. */
void rd_mean_all(void *into, rd_mean_source source, const void *context, int ranks, size_t count,
	rondo_type type);

/* The addition of two values of a mean of `ranks` elements: contributions, or partial sums, which
   are scaled. */
struct rd_mean_step {
	int ranks;
	bool a_is_sum, b_is_sum;
	bool last; /* the sum becomes the mean; else it is another partial sum */
};

/* into = a + b. `into` may be a or b exactly. For integers, f32, f64 and complex numbers. */
void rd_mean_add(void *into, const void *a, const void *b, size_t count, rondo_type type,
	struct rd_mean_step step);

#endif
