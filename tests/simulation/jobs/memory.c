#include "world.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Before each allocation; aligned as malloc() does. */
struct block {
	struct block *next, **at;
	size_t size, padding;
};

static struct block *blocks[JOB_RANKS];
static size_t used[JOB_RANKS];
static int owner = -1;

void *__real_malloc(size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);

int memory_enter(int rank)
{
	int before = owner;

	owner = rank;
	return before;
}

void *memory_allocate(size_t size)
{
	struct block *block;

	if (owner < 0)
		return __real_malloc(size);
	block = __real_malloc(sizeof(*block) + size);
	if (!block)
		abort();
	*block = (struct block){ blocks[owner], &blocks[owner], size, 0 };
	if (block->next)
		block->next->at = &block->next;
	blocks[owner] = block;
	used[owner] += size;
	return block + 1;
}

void memory_free(void *memory)
{
	struct block *block = memory;

	if (!memory || owner < 0) {
		__real_free(memory);
		return;
	}
	block--;
	*block->at = block->next;
	if (block->next)
		block->next->at = block->at;
	used[owner] -= block->size;
	__real_free(block);
}

void *memory_reallocate(void *memory, size_t size)
{
	const struct block *block = memory;
	void *made;

	if (owner < 0)
		return __real_realloc(memory, size);
	made = memory_allocate(size);
	if (!memory)
		return made;
	block--;
	memcpy(made, memory, block->size < size ? block->size : size);
	memory_free(memory);
	return made;
}

size_t memory_used(int rank)
{
	return used[rank];
}

void memory_free_all(int rank)
{
	int before = memory_enter(rank);

	while (blocks[rank])
		memory_free(blocks[rank] + 1);
	memory_enter(before);
}
