/*
 * Sweeps over memory, the plainest loops that copy or add: what a reduction or a copy could reach
 * if it did nothing else. With ordinary stores, which first fetch the line that they overwrite, or
 * with non-temporal ones, which do not, and go past the caches.
 */
#ifndef BENCH_SWEEP_H
#define BENCH_SWEEP_H

#include <stdbool.h>
#include <stddef.h>

/* into = a, or into = a + b; `count` floats, a multiple of 16; pointers aligned to 64 bytes. */
typedef void (*bench_sweep)(float *into, const float *a, const float *b, size_t count);

/* The widest that this processor has; NULL when it has no such stores. */
bench_sweep bench_sweep_find(bool add, bool non_temporal);

/* "avx512", "avx2" or "plain" */
const char *bench_sweep_instructions(void);

#endif
