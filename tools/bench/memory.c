#include "memory.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096

void *bench_memory_create(size_t size)
{
	size_t whole = (size + PAGE) / PAGE * PAGE;
	void *memory = aligned_alloc(PAGE, whole);

	/* Untouched pages would share one page of zeros, and read faster than real ones. */
	if (memory)
		memset(memory, 1, whole);
	return memory;
}

void bench_memory_destroy(void *memory)
{
	free(memory);
}
