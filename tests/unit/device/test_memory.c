#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transports/contract/leaks.h"
#include "transports/contract/suite.h"
#include "device/region.h"
#include "rondo.h"

static size_t page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static char *alloc(size_t size)
{
	void *memory = NULL;

	cr_assert_eq(rondo_mem_alloc(&memory, size), 0, "%s", rondo_last_error());
	cr_assert(memory);
	return memory;
}

Test(memory, begins_at_a_page_and_is_zeroed_and_writable)
{
	static const size_t sizes[] = { 1, 63, 4096, 4097, 1 << 20, (4 << 20) + 3 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		char *memory = alloc(sizes[i]);

		cr_expect_eq((uintptr_t)memory % page(), 0);
		for (size_t k = 0; k < sizes[i]; k++)
			cr_assert_eq(memory[k], 0, "byte %zu of %zu", k, sizes[i]);
		memset(memory, 0x5a, sizes[i]);
		cr_expect_eq(memory[sizes[i] - 1], 0x5a);
		cr_expect_eq(rondo_mem_free(memory), 0);
	}
}

Test(memory, of_no_bytes_is_null_and_null_may_be_freed)
{
	void *memory = &memory;

	cr_expect_eq(rondo_mem_alloc(&memory, 0), 0);
	cr_expect_null(memory);
	cr_expect_eq(rondo_mem_free(NULL), 0);
	cr_expect_eq(rondo_mem_alloc(NULL, 1), RONDO_INVALID);
}

Test(memory, that_is_too_much_is_an_error_and_leaves_nothing)
{
	int files = contract_open_files(), maps = contract_shared_maps();
	uint64_t version = rd_regions_version();
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2, (size_t)1 << 62 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		void *memory = &memory;

		cr_expect_lt(rondo_mem_alloc(&memory, sizes[i]), 0, "%zu bytes", sizes[i]);
		cr_expect_null(memory);
		cr_expect_neq(*rondo_last_error(), '\0');
	}
	cr_expect_eq(rd_regions_version(), version);
	cr_expect_eq(contract_open_files(), files);
	cr_expect_eq(contract_shared_maps(), maps);
}

static bool found(const char *at, size_t size)
{
	struct rd_region region;

	return rd_region_find(at, size, &region);
}

Test(memory, is_found_where_all_of_a_buffer_lies_in_one_region)
{
	size_t size = 3 * page();
	char *memory = alloc(size);
	struct rd_region region = { 0 };

	cr_expect(rd_region_find(memory + 5, 10, &region));
	cr_expect_eq(region.base, memory);
	cr_expect_eq(region.size, size);
	cr_expect_neq(region.id, 0);
	cr_expect(rd_region_exists(region.id));
	cr_expect_not(rd_region_exists(region.id + 2));

	cr_expect(found(memory, size));
	cr_expect(found(memory, 0));
	cr_expect(found(memory + size - 1, 1));
	cr_expect(found(memory + size, 0));
	cr_expect_not(found(memory, size + 1));
	cr_expect_not(found(memory + 1, size));
	cr_expect_not(found(memory + size, 1));
	cr_expect_not(found(memory - 1, 1));
	cr_expect_not(found(memory - 1, 2));
	cr_expect_not(found(memory + 1, SIZE_MAX));
	cr_expect_not(found(NULL, 1));
	cr_expect_eq(rondo_mem_free(memory), 0);
	cr_expect_not(found(memory, 1));
	cr_expect_not(rd_region_exists(region.id));
}

Test(memory, is_whole_pages_of_a_memfd_of_its_own_that_cannot_shrink)
{
	char *memory = alloc(100), *other = alloc(100);
	struct rd_region region, another;
	char byte = 0;

	cr_assert(rd_region_find(memory, 100, &region));
	cr_assert(rd_region_find(other, 100, &another));
	cr_expect_eq(region.size, page());
	cr_expect_neq(region.id, another.id);
	memory[7] = 'x';
	cr_expect_eq(pread(region.fd, &byte, 1, 7), 1);
	cr_expect_eq(byte, 'x');
	cr_expect_neq(ftruncate(region.fd, 0), 0);
	cr_expect_neq(ftruncate(region.fd, (off_t)(2 * page())), 0);
	cr_expect_eq(rondo_mem_free(memory), 0);
	cr_expect_eq(rondo_mem_free(other), 0);
}

Test(memory, changes_the_version_when_a_region_comes_or_goes)
{
	uint64_t versions[5];
	char *first, *second;

	versions[0] = rd_regions_version();
	cr_expect_eq(rd_regions_version(), versions[0]);
	first = alloc(1);
	versions[1] = rd_regions_version();
	second = alloc(1);
	versions[2] = rd_regions_version();
	cr_expect_eq(rondo_mem_free(first), 0);
	versions[3] = rd_regions_version();
	cr_expect_eq(rondo_mem_free(second), 0);
	versions[4] = rd_regions_version();
	for (int i = 0; i < 5; i++)
		for (int k = 0; k < i; k++)
			cr_expect_neq(versions[i], versions[k], "%d and %d", i, k);
}

Test(memory, refuses_to_free_what_is_no_region)
{
	char *memory = alloc(2 * page()), local;
	uint64_t version = rd_regions_version();

	cr_expect_eq(rondo_mem_free(&local), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "is not the start of memory from rondo_mem_alloc"));
	cr_expect_eq(rondo_mem_free(memory + 1), RONDO_INVALID);
	cr_expect_eq(rondo_mem_free(memory + page()), RONDO_INVALID);
	cr_expect_eq(rd_regions_version(), version);
	memory[0] = 1;
	cr_expect_eq(rondo_mem_free(memory), 0);
	cr_expect_eq(rondo_mem_free(memory), RONDO_INVALID, "freed twice");
}

/* Freed in another order than they came, among others that stay. */
Test(memory, of_many_regions_keeps_each_apart_and_leaves_nothing)
{
	enum { COUNT = 100 };
	int files = contract_open_files(), maps = contract_shared_maps();
	char *memory[COUNT];

	for (int i = 0; i < COUNT; i++) {
		memory[i] = alloc(page());
		memset(memory[i], i, page());
	}
	for (int i = 0; i < COUNT; i++) {
		int k = i * 37 % COUNT;
		struct rd_region region;

		cr_assert(rd_region_find(memory[k], page(), &region));
		cr_expect_eq(region.base, memory[k]);
		cr_expect_eq(memory[k][page() - 1], (char)k);
		cr_expect_eq(rondo_mem_free(memory[k]), 0);
		cr_expect_not(found(memory[k], page()));
	}
	cr_expect_eq(contract_open_files(), files);
	cr_expect_eq(contract_shared_maps(), maps);
}

static void *come_and_go(void *argument)
{
	uintptr_t wrong = 0;

	(void)argument;
	for (int i = 0; i < 200; i++) {
		struct rd_region region;
		void *memory = NULL;

		wrong += rondo_mem_alloc(&memory, 1) != 0 || !memory;
		wrong += !rd_region_find(memory, 1, &region) || region.base != memory;
		wrong += rondo_mem_free(memory) != 0;
	}
	return (void *)wrong;
}

Test(memory, comes_and_goes_in_many_threads_at_once, .timeout = 60)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
	for (int i = 0; i < 4; i++) {
		void *wrong;

		pthread_join(threads[i], &wrong);
		cr_expect_null(wrong);
	}
}
