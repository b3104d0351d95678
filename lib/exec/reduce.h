/*
 * Reductions in host memory, by type and operation: vectorised, and chosen at run time for this
 * processor. No allocation, no system call; any alignment; any count.
 */
#ifndef RD_REDUCE_H
#define RD_REDUCE_H

#include <stdbool.h>

#include "rondo.h"

/*
 * into[i] = a[i] op b[i]. `into` may be a or b exactly; no other overlap. For RONDO_AVG the
 * function adds; means are made by mean.h.
 *
 * a op b and b op a have the same bits, and every variant gives the same bits. The one exception
 * is the payload and sign of the NaN from a sum or product of two NaNs. The minimum of +0 and -0
 * is -0, the maximum +0. f32 and f64 follow the caller's floating point mode.
 */
typedef void (*rd_reduce_function)(void *into, const void *a, const void *b, size_t count);

/* NULL exactly where rondo_op_applies() returns 0. Takes no lock: the table is filled in at load
   time. */
rd_reduce_function rd_reduce(rondo_type type, rondo_op op);

/* into[i] = into[i] / by, of integers, which round towards zero, of f32 or of f64. False: some
   quotient is an infinity or NaN. */
bool rd_average(void *into, size_t count, rondo_type type, int by);

/* The factors of an addition of scaled elements, all powers of two but `by`. */
struct rd_scaled_sum {
	double a, b; /* what a and b are multiplied by */
	double scale; /* of the sum */
	int by; /* the sum is divided by this, and no more scaled; 0: not divided */
};

/* into[i] = a[i] + b[i] by these factors, of f32 or f64. `into` may be a or b exactly. The sum that
   is divided is scaled only where it would not be finite otherwise. */
void rd_add_scaled(void *into, const void *a, const void *b, size_t count, rondo_type type,
	const struct rd_scaled_sum *sum);

/* Converts f16, bf16 or f8 to f32, and back: to nearest even. */
void rd_widen(float *into, const void *from, size_t count, rondo_type type);
void rd_narrow(void *into, const float *from, size_t count, rondo_type type);

/* Least size, in bytes, for rd_copy_wide(). */
#define RD_COPY_WIDE_MIN (2 << 10)

/*
 * Copies RD_COPY_WIDE_MIN bytes or more by the widest ordinary stores that this processor has. The
 * C library copies this many bytes by `rep movsb`. That writes lines that another core has read at
 * 13 GB/s, where these stores reach 21. It reads such lines at 14 GB/s, against 17 (cores 200 ns
 * apart). It lies beside the reductions, because it is chosen with their variant.
 */
void rd_copy_wide(void *into, const void *from, size_t size);

/* Returns the instructions in use: "plain", "avx2", "avx512" or "neon" (base/instructions.h). For
   tests. */
const char *rd_reduce_instructions(void);

/* The function of one variant by name; NULL where this processor lacks it. For tests. */
rd_reduce_function rd_reduce_variant(const char *instructions, rondo_type type, rondo_op op);

#endif
