#include "transports/verbs/region.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void rd_verbs_regions_init(struct rd_verbs_regions *regions)
{
	*regions = (struct rd_verbs_regions){ .lock = PTHREAD_MUTEX_INITIALIZER };
}

/* ---- Changes ------------------------------------------------------------------------------- */

static void release(struct rd_verbs_region *region, struct rd_verbs_rail *rails, int count)
{
	for (int i = 0; i < count && region->at[i]; i++)
		rd_verbs_device_unshare(rails[i].device, region->at[i]);
}

static int add(struct rd_verbs_regions *regions, const struct rd_verbs_region *region)
{
	struct rd_verbs_region *grown =
		realloc(regions->all, (regions->count + 1) * sizeof(*regions->all));

	if (!grown)
		return rd_fail(RONDO_MEMORY, "no memory for a table of regions");
	regions->all = grown;
	regions->all[regions->count++] = *region;
	atomic_fetch_add(&regions->version, 1);
	return 0;
}

int rd_verbs_regions_add(struct rd_verbs_regions *regions, struct rd_verbs_rail *rails, int count,
	const struct rd_registration *registration)
{
	struct rd_verbs_region region = {
		.id = registration->id,
		.base = (uintptr_t)registration->base,
		.size = registration->size,
		.writable = true,
	};
	bool writable = true;
	int err = 0;

	for (int i = 0; i < count && !err; i++) {
		err = rd_verbs_device_share(
			rails[i].device, registration, &region.at[i], &writable);
		region.writable &= writable;
	}
	if (!err) {
		pthread_mutex_lock(&regions->lock);
		err = add(regions, &region);
		pthread_mutex_unlock(&regions->lock);
	}
	if (err)
		release(&region, rails, count);
	return err;
}

void rd_verbs_regions_remove(
	struct rd_verbs_regions *regions, struct rd_verbs_rail *rails, int count, uint64_t id)
{
	struct rd_verbs_region removed = { .id = 0 };

	pthread_mutex_lock(&regions->lock);
	for (size_t i = 0; i < regions->count; i++)
		if (regions->all[i].id == id) {
			removed = regions->all[i];
			regions->all[i] = regions->all[--regions->count];
			atomic_fetch_add(&regions->version, 1);
			break;
		}
	pthread_mutex_unlock(&regions->lock);
	release(&removed, rails, count);
}

void rd_verbs_regions_abandon(struct rd_verbs_regions *regions)
{
	free(regions->all);
	free(regions->copy);
}

void rd_verbs_regions_finish(
	struct rd_verbs_regions *regions, struct rd_verbs_rail *rails, int count)
{
	for (size_t i = 0; i < regions->count; i++)
		release(&regions->all[i], rails, count);
	rd_verbs_regions_abandon(regions);
	pthread_mutex_destroy(&regions->lock);
}

/* ---- Use ----------------------------------------------------------------------------------- */

/* Without memory for a copy no region is found: messages are copied. */
static void copy_table(struct rd_verbs_regions *regions)
{
	size_t size;

	pthread_mutex_lock(&regions->lock);
	free(regions->copy);
	size = regions->count * sizeof(*regions->all);
	regions->copy = size > 0 ? malloc(size) : NULL;
	regions->copied = regions->copy ? regions->count : 0;
	if (regions->copy)
		memcpy(regions->copy, regions->all, size);
	regions->copied_version = atomic_load(&regions->version);
	pthread_mutex_unlock(&regions->lock);
}

bool rd_verbs_regions_renew(struct rd_verbs_regions *regions)
{
	if (atomic_load_explicit(&regions->version, memory_order_acquire) ==
		regions->copied_version)
		return false;
	copy_table(regions);
	return true;
}

const struct rd_verbs_region *rd_verbs_regions_find(
	struct rd_verbs_regions *regions, const void *at, size_t size)
{
	uintptr_t first = (uintptr_t)at;

	rd_verbs_regions_renew(regions);
	for (size_t i = 0; i < regions->copied; i++) {
		const struct rd_verbs_region *region = &regions->copy[i];

		if (first >= region->base && first - region->base <= region->size &&
			size <= region->size - (first - region->base))
			return region;
	}
	return NULL;
}
