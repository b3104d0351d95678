/* Arithmetic on sizes and counts. */
#ifndef RD_ARITH_H
#define RD_ARITH_H

#include <stddef.h>

static inline size_t rd_max(size_t a, size_t b)
{
	return a > b ? a : b;
}

static inline size_t rd_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The least multiple of `unit`, which is not 0, that is at least `value`. */
static inline size_t rd_round_up(size_t value, size_t unit)
{
	return (value + unit - 1) / unit * unit;
}

#endif
