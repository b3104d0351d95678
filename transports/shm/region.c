#include "transports/shm/region.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define NOTICE_MAGIC 0x6d68736eu /* "nshm" */

bool rd_shm_sealed(int fd, size_t size)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat status;

	return seals >= 0 && seals & F_SEAL_SHRINK && fstat(fd, &status) == 0 &&
	       (size_t)status.st_size == size;
}

struct rd_shm_notice rd_shm_notice_of(bool offers, uint64_t comm_id, uint64_t id, size_t size)
{
	return (struct rd_shm_notice){ NOTICE_MAGIC, offers, comm_id, id, size };
}

bool rd_shm_notice_valid(const struct rd_shm_notice *notice, size_t size)
{
	return size == sizeof(*notice) && notice->magic == NOTICE_MAGIC;
}

/* One that is offered again stays where it is. */
static void region_add(struct rd_shm_region **regions, const struct rd_shm_notice *notice, int fd)
{
	struct rd_shm_region *region;

	if (rd_shm_region_find(*regions, notice->id))
		return;
	region = calloc(1, sizeof(*region));
	if (!region)
		return;
	region->id = notice->id;
	region->size = notice->size;
	if (rd_shm_sealed(fd, notice->size)) {
		void *base = mmap(NULL, notice->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		region->base = base == MAP_FAILED ? NULL : base;
	}
	region->next = *regions;
	*regions = region;
}

static void region_drop(struct rd_shm_region **at)
{
	struct rd_shm_region *region = *at;

	*at = region->next;
	if (region->base)
		munmap(region->base, region->size);
	free(region);
}

static void region_remove(struct rd_shm_region **regions, uint64_t id)
{
	for (struct rd_shm_region **at = regions; *at; at = &(*at)->next) {
		if ((*at)->id == id) {
			region_drop(at);
			return;
		}
	}
}

void rd_shm_regions_update(
	struct rd_shm_region **regions, const struct rd_shm_notice *notice, int fd)
{
	if (notice->offers && fd >= 0)
		region_add(regions, notice, fd);
	else if (!notice->offers)
		region_remove(regions, notice->id);
}

const struct rd_shm_region *rd_shm_region_find(const struct rd_shm_region *regions, uint64_t id)
{
	while (regions && regions->id != id)
		regions = regions->next;
	return regions;
}

void rd_shm_regions_finish(struct rd_shm_region **regions)
{
	while (*regions)
		region_drop(regions);
}
