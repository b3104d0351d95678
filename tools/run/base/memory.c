#include "run/base/memory.h"

#include <stdio.h>
#include <stdlib.h>

void memory_report_lack(void)
{
	fputs("rondo-run: out of memory\n", stderr);
}

static void *require(void *memory)
{
	if (!memory) {
		memory_report_lack();
		abort();
	}
	return memory;
}

void *memory_calloc(size_t count, size_t size)
{
	return require(calloc(count, size));
}

void *memory_realloc(void *memory, size_t size)
{
	return require(realloc(memory, size));
}

void *memory_grow(void *array, int count, int *capacity, size_t size)
{
	if (count < *capacity)
		return array;
	*capacity = 2 * *capacity + 8;
	return memory_realloc(array, (size_t)*capacity * size);
}
