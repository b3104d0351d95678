/* Page-aligned and touched buffers, as the peers' benchmarks use. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <stddef.h>

/* NULL without memory. A size of 0 returns a buffer, too. */
void *bench_memory_create(size_t size);
void bench_memory_destroy(void *memory);

#endif
