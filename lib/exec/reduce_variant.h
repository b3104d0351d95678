/*
 * The kernels of one instruction set. Each reduce_*.c defines one; reduce.c chooses between them.
 */
#ifndef RD_REDUCE_VARIANT_H
#define RD_REDUCE_VARIANT_H

#include "exec/reduce.h"

typedef void (*rd_average_function)(void *into, size_t count, int by);

struct rd_reduce_variant {
	const char *name;
	void (*copy)(void *into, const void *from, size_t size); /* rd_copy_wide() */
	rd_reduce_function reduce[RONDO_TYPE_COUNT][RONDO_OP_COUNT];
	rd_average_function average[RONDO_TYPE_COUNT];
};

extern const struct rd_reduce_variant rd_reduce_plain, rd_reduce_avx2, rd_reduce_avx512;

#endif
