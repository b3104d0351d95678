/*
 * Plain loops that copy or add: the limit for copies and reductions. Ordinary stores first fetch
 * the line that they overwrite; non-temporal stores do not, and bypass the caches.
 */
#ifndef BENCH_SWEEP_H
#define BENCH_SWEEP_H

#include <stdbool.h>
#include <stddef.h>

/* into = a, or into = a + b; `count` floats, a multiple of 16; pointers aligned to 64 bytes. */
typedef void (*bench_sweep)(float *into, const float *a, const float *b, size_t count);

/* The widest of this processor; NULL if it lacks these stores. */
bench_sweep bench_sweep_find(bool add, bool non_temporal);

/* "avx512", "avx2" or "plain" */
const char *bench_sweep_instructions(void);

#endif
