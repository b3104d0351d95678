/*
 * Combining elements in host memory: by type and operation, vectorised, chosen at run time for this
 * processor. No allocation, no system call; any alignment; any count.
 */
#ifndef RD_REDUCE_H
#define RD_REDUCE_H

#include "rondo.h"

/*
 * into[i] = a[i] op b[i]. `into` may be a or b exactly; no other overlap. For RONDO_AVG this adds;
 * rd_average() divides. a op b and b op a are the same bits, but for the payload and sign of the
 * NaN that a sum or product of two NaNs is; every variant gives the same bits with that one
 * exception. The least of +0 and -0 is -0, the greatest +0. f32 and f64 follow the caller's
 * floating point mode.
 */
typedef void (*rd_reduce_function)(void *into, const void *a, const void *b, size_t count);

/* NULL where rondo_op_applies() says no, else never. Takes no lock: the table is filled in at load
 * time. */
rd_reduce_function rd_reduce(rondo_type type, rondo_op op);

/* into[i] = into[i] / by; integers towards zero; f16, bf16 and f8 through f32. */
void rd_average(void *into, size_t count, rondo_type type, int by);

/* Which instructions are in use: "plain", "avx2" or "avx512". RONDO_ has no setting for it: tests
   reach every variant by rd_reduce_variant(). */
const char *rd_reduce_instructions(void);

/* The function of one variant by name; NULL where this processor lacks it. For tests. */
rd_reduce_function rd_reduce_variant(const char *instructions, rondo_type type, rondo_op op);

#endif
