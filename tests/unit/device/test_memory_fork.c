/* A child that is forked while another thread allocates registered memory. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "held_fork.h"
#include "rondo.h"

/* The tables of regions and of registrations grow below their locks. */
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static int reallocations, dwells_at;

void *__wrap_realloc(void *memory, size_t size)
{
	if (++reallocations == dwells_at)
		held_fork_dwell();
	return __real_realloc(memory, size);
}

static void allocate(void)
{
	void *memory;

	if (rondo_mem_alloc(&memory, 4096) == 0)
		rondo_mem_free(memory);
}

Test(memory_fork, a_child_allocates_though_a_thread_held_the_table_of_regions, .timeout = 60)
{
	dwells_at = 1;
	fork_while(allocate);
	cr_expect_geq(reallocations, 2);
}

Test(memory_fork, a_child_allocates_though_a_thread_held_the_registrations, .timeout = 60)
{
	dwells_at = 2;
	fork_while(allocate);
	cr_expect_geq(reallocations, 2);
}
