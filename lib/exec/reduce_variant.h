/*
 * The kernels of one instruction set. Each reduce_*.c defines one; reduce.c chooses between them.
 */
#ifndef RD_REDUCE_VARIANT_H
#define RD_REDUCE_VARIANT_H

#include "exec/reduce.h"

typedef bool (*rd_average_function)(void *into, size_t count, int by);
typedef void (*rd_add_scaled_function)(
	void *into, const void *a, const void *b, size_t count, const struct rd_scaled_sum *sum);

struct rd_reduce_variant {
	const char *name;
	void (*copy)(void *into, const void *from, size_t size); /* rd_copy_wide() */
	rd_reduce_function reduce[RONDO_TYPE_COUNT][RONDO_OP_COUNT];
	/* rd_average(), of integers, f32 and f64 */
	rd_average_function average[RONDO_TYPE_COUNT];
	/* rd_add_scaled(), of f32 and f64: for a partial sum, and for the mean */
	rd_add_scaled_function add_scaled[RONDO_TYPE_COUNT][2];
	/* rd_widen(), rd_narrow() */
	void (*widen[RONDO_TYPE_COUNT])(float *into, const void *from, size_t count);
	void (*narrow[RONDO_TYPE_COUNT])(void *into, const float *from, size_t count);
};

extern const struct rd_reduce_variant rd_reduce_plain, rd_reduce_avx2, rd_reduce_avx512,
	rd_reduce_neon;

#endif
