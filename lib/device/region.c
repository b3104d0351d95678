#include "device/region.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/fork_lock.h"
#include "base/grow.h"

static struct rd_fork_lock lock = RD_FORK_LOCK(RD_FORK_LEAF);
static struct rd_region *regions;
static int region_count, region_capacity;
static _Atomic uint64_t version = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/*
 * In a forked child, in which the table is as between two changes. The parent's calls must not see
 * the child's writes. Its peers could not see them either: the child's calls take the regions for
 * plain memory.
 */
static void make_private(void)
{
	for (int i = 0; i < region_count; i++) {
		struct rd_region *region = &regions[i];

		if (region->fd < 0)
			continue;
		/* Where there is no memory for it, the child shares the region. */
		mmap(region->base, region->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
			region->fd, 0);
		close(region->fd);
		region->fd = -1;
	}
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, make_private);
}

uint64_t rd_regions_version(void)
{
	return atomic_load_explicit(&version, memory_order_acquire);
}

bool rd_region_find(const void *at, size_t size, struct rd_region *region)
{
	const char *first = at;
	bool found = false;

	rd_fork_lock(&lock);
	for (int i = 0; i < region_count && !found; i++) {
		const struct rd_region *candidate = &regions[i];

		found = candidate->fd >= 0 && first >= candidate->base && size <= candidate->size &&
			(size_t)(first - candidate->base) <= candidate->size - size;
		if (found)
			*region = *candidate;
	}
	rd_fork_unlock(&lock);
	return found;
}

bool rd_region_exists(uint64_t id)
{
	bool found = false;

	rd_fork_lock(&lock);
	for (int i = 0; i < region_count && !found; i++)
		found = regions[i].id == id;
	rd_fork_unlock(&lock);
	return found;
}

static int keep(const struct rd_region *region)
{
	int err = 0;

	pthread_once(&once, watch_forks);
	rd_fork_lock(&lock);
	if (!rd_grow(&regions, region_count, &region_capacity, sizeof(*regions)))
		err = rd_fail(RONDO_MEMORY, "no memory to note a region");
	if (!err) {
		regions[region_count++] = *region;
		atomic_fetch_add(&version, 1);
	}
	rd_fork_unlock(&lock);
	return err;
}

/* Sealed, so that no peer that maps it can be hurt by its shrinking. */
static int region_open(struct rd_region *region, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (size > SIZE_MAX - page)
		return rd_fail(RONDO_MEMORY, "rondo_mem_alloc: %zu bytes are too many", size);
	region->size = (size + page - 1) / page * page;
	region->fd = rd_above_stderr(memfd_create("rondo", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (region->fd < 0)
		return rd_fail_errno("rondo_mem_alloc: cannot make a memfd");
	if (ftruncate(region->fd, (off_t)region->size) < 0 ||
		fcntl(region->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return rd_fail_errno("rondo_mem_alloc: cannot make %zu bytes", region->size);
	region->base = mmap(NULL, region->size, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
	if (region->base == MAP_FAILED)
		return rd_fail_errno("rondo_mem_alloc: cannot map %zu bytes", region->size);
	madvise(region->base, region->size, MADV_HUGEPAGE);
	if (getrandom(&region->id, sizeof(region->id), 0) != sizeof(region->id))
		return rd_fail_errno("rondo_mem_alloc: no random numbers");
	region->id |= 1;
	return 0;
}

static void region_close(struct rd_region *region)
{
	if (region->base != MAP_FAILED)
		munmap(region->base, region->size);
	if (region->fd >= 0)
		close(region->fd);
}

int rd_region_alloc(void **memory, size_t size)
{
	struct rd_region region = { .base = MAP_FAILED, .fd = -1 };

	*memory = NULL;
	if (size == 0)
		return 0;

	int err = region_open(&region, size);

	if (!err)
		err = keep(&region);
	if (err) {
		region_close(&region);
		return err;
	}
	*memory = region.base;
	return 0;
}

bool rd_region_free(void *memory)
{
	struct rd_region region = { .base = MAP_FAILED, .fd = -1 };

	rd_fork_lock(&lock);
	for (int i = 0; i < region_count; i++) {
		if (regions[i].base != memory)
			continue;
		region = regions[i];
		regions[i] = regions[--region_count];
		atomic_fetch_add(&version, 1);
		break;
	}
	if (region_count == 0) {
		free(regions);
		regions = NULL;
		region_capacity = 0;
	}
	rd_fork_unlock(&lock);
	region_close(&region);
	return region.base != MAP_FAILED;
}
