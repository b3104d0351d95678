/* Buffers to measure with: page-aligned, as the peers' own benchmarks have them, and touched. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <stddef.h>

/* NULL when there is not enough memory. A size of 0 gives a buffer as well. */
void *bench_memory_create(size_t size);
void bench_memory_destroy(void *memory);

#endif
