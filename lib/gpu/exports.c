#include "gpu/exports.h"

#include <string.h>

#include "base/error.h"
#include "base/futex.h"
#include "gpu/watch.h"
#include "base/log.h"

/* ---- Exports ------------------------------------------------------------------------------- */

static bool has_other_processes(const struct rd_gpu *gpu)
{
	return !gpu->one_process;
}

/* Whether the place must stay as it is. The call that is being queued, this one, has a number that
   no queued call had. A captured call has that of the last one, and keeps its own places. */
static bool is_in_use(const struct rd_export *export, uint32_t number, bool keep)
{
	return export->kept || (export->generation && export->used == number && !keep);
}

/* Where the allocation is, or is to be. One at the same address is gone: its memory was freed.
   NULL: all places are in use. */
static struct rd_export *place_of(
	struct rd_gpu *gpu, const struct rd_allocation *allocation, uint32_t number, bool keep)
{
	struct rd_export *oldest = NULL;

	for (int i = 0; i < RD_BOUNCES; i++)
		if (gpu->bounces[i].memory == allocation->base)
			return &gpu->exports[RD_EXPORTS - 1 - i];
	for (int i = 0; i < RD_EXPORTS - RD_BOUNCES; i++) {
		struct rd_export *export = &gpu->exports[i];

		if (export->generation && export->base == allocation->base)
			return export;
		if (is_in_use(export, number, keep))
			continue;
		if (!oldest || !export->generation ||
			(oldest->generation && number - export->used > number - oldest->used))
			oldest = export;
	}
	return oldest;
}

/* Whether the program has freed it, and no call uses it any more. */
static bool is_gone(const struct rd_gpu *gpu, const struct rd_export *export)
{
	struct rd_allocation allocation;

	if (gpu->number - export->used < RD_RUN_AHEAD &&
		!rd_flag_reached(&gpu->stream_flags->finished, export->used))
		return false;
	return !gpu->ops->find(export->base, &allocation) || allocation.id != export->id;
}

/* Peers unmap it when they map what this rank announces next. */
static void tell_of_freed(struct rd_gpu *gpu)
{
	for (int i = 0; i < RD_EXPORTS; i++) {
		struct rd_export *export = &gpu->exports[i];

		if (export->generation == 0 || !is_gone(gpu, export))
			continue;
		rd_flag_write(&gpu->host_flags->freed[i], export->generation);
		*export = (struct rd_export){ 0 };
	}
}

/* Peers may still use what the place held. A call that is further back than the run-ahead is done:
   of its number nothing is known, for numbers come again. */
static int put_in(struct rd_gpu *gpu, struct rd_export *export,
	const struct rd_allocation *allocation, uint32_t number)
{
	struct rd_handle handle;

	if (gpu->ops->export(allocation->base, &handle))
		return RONDO_UNSUPPORTED;
	tell_of_freed(gpu);
	if (export->generation && number - export->used < RD_RUN_AHEAD)
		rd_gpu_await(gpu, export->used);
	*export = (struct rd_export){ .id = allocation->id,
		.base = allocation->base,
		.size = allocation->size,
		.generation = ++gpu->generations,
		.handle = handle };
	return 0;
}

int rd_exports_describe(struct rd_gpu *gpu, const void *at, size_t size, uint32_t number, bool keep,
	struct rd_buffer_location *location)
{
	struct rd_allocation allocation;
	struct rd_export *export;
	int err = 0;

	memset(location, 0, sizeof(*location));
	if (size == 0)
		return 0;
	location->address = (uintptr_t)at;
	if (!has_other_processes(gpu))
		return 0;
	if (!gpu->ops->find(at, &allocation))
		return rd_fail(RONDO_UNSUPPORTED, "it is host memory");
	export = place_of(gpu, &allocation, number, keep);
	if (!export)
		return rd_fail(RONDO_UNSUPPORTED,
			"graphs and this call use %d other buffers of rank %d",
			RD_EXPORTS - RD_BOUNCES, gpu->comm->rank);
	if (export->generation == 0 || export->id != allocation.id)
		err = put_in(gpu, export, &allocation, number);
	if (err)
		return err;
	export->used = number;
	export->kept |= keep;
	location->place = (uint32_t)(export - gpu->exports);
	location->generation = export->generation;
	location->offset = (uint64_t)((const char *)at - allocation.base);
	location->handle = export->handle;
	return 0;
}

bool rd_exports_is_fresh(const struct rd_gpu *gpu, const struct rd_buffer_location *location)
{
	bool fresh = false;

	for (int peer = 0; peer < gpu->comm->size && location->generation; peer++)
		fresh |= !gpu->same_process[peer] &&
			 __atomic_load_n(&gpu->host_flags->imported[peer][location->place],
				 __ATOMIC_ACQUIRE) != location->generation;
	return fresh;
}

/* ---- Imports ------------------------------------------------------------------------------- */

static struct rd_import get(struct rd_gpu *gpu, int peer, uint32_t place)
{
	struct rd_import import;

	pthread_mutex_lock(&gpu->imports_lock);
	import = gpu->imports[peer][place];
	pthread_mutex_unlock(&gpu->imports_lock);
	return import;
}

static void put(struct rd_gpu *gpu, int peer, uint32_t place, const struct rd_import *import)
{
	pthread_mutex_lock(&gpu->imports_lock);
	gpu->imports[peer][place] = *import;
	pthread_mutex_unlock(&gpu->imports_lock);
}

/* Its rank knows that no call uses it any more. */
static void drop_freed(struct rd_gpu *gpu, int peer)
{
	for (uint32_t place = 0; place < RD_EXPORTS; place++) {
		const uint32_t *freed = &gpu->peer_flags[peer]->freed[place];
		struct rd_import import = get(gpu, peer, place);
		bool unmaps = import.generation && rd_flag_reached(freed, import.generation);
		bool forgets = import.wanted && rd_flag_reached(freed, import.wanted);

		if (!unmaps && !forgets)
			continue;
		import.generation = unmaps ? 0 : import.generation;
		import.wanted = forgets ? 0 : import.wanted;
		put(gpu, peer, place, &import);
		if (unmaps)
			gpu->ops->drop(gpu->device, import.base);
	}
}

/* Without the lock, which the progress thread takes for every call. */
static int import(struct rd_gpu *gpu, int peer, uint32_t place, uint32_t generation,
	const struct rd_handle *handle, struct rd_import *made)
{
	struct rd_import earlier = get(gpu, peer, place);
	void *base;
	size_t size;
	int err;

	put(gpu, peer, place, &(struct rd_import){ 0 });
	/* Its rank has waited for the calls that used it. */
	if (earlier.generation)
		gpu->ops->drop(gpu->device, earlier.base);
	err = gpu->ops->import(gpu->device, handle, &base, &size);
	if (err)
		return err;
	*made = (struct rd_import){ .generation = generation, .base = base, .size = size };
	put(gpu, peer, place, made);
	__atomic_store_n(&gpu->peer_flags[peer]->imported[gpu->comm->rank][place], generation,
		__ATOMIC_RELEASE);
	return 0;
}

static bool is_valid(const struct rd_buffer_location *location)
{
	return location->place < RD_EXPORTS && location->generation != 0;
}

char *rd_imports_reach(struct rd_gpu *gpu, int peer, const struct rd_buffer_location *location,
	size_t size, bool maps)
{
	struct rd_import found = { 0 };
	bool mapped = false;

	if (gpu->same_process[peer])
		return (char *)(uintptr_t)location->address;
	if (is_valid(location)) {
		found = get(gpu, peer, location->place);
		mapped = found.generation == location->generation;
	}
	if (is_valid(location) && !mapped && maps) {
		drop_freed(gpu, peer);
		if (import(gpu, peer, location->place, location->generation, &location->handle,
			    &found))
			return NULL;
		mapped = true;
	}
	if (mapped && size <= found.size && location->offset <= found.size - size)
		return found.base + location->offset;
	rd_fail(RONDO_PROTOCOL, "rank %d says its buffer lies where it has no memory", peer);
	return NULL;
}

void rd_imports_note(struct rd_gpu *gpu, int peer, const struct rd_buffer_location *location)
{
	struct rd_import *import;

	if (gpu->same_process[peer] || !is_valid(location))
		return;
	pthread_mutex_lock(&gpu->imports_lock);
	import = &gpu->imports[peer][location->place];
	if (import->generation != location->generation) {
		import->wanted = location->generation;
		import->handle = location->handle;
		atomic_store(&gpu->wants_imports, true);
	}
	pthread_mutex_unlock(&gpu->imports_lock);
}

void rd_imports_map_noted(struct rd_gpu *gpu)
{
	if (!atomic_exchange(&gpu->wants_imports, false))
		return;
	for (int peer = 0; peer < gpu->comm->size; peer++) {
		if (gpu->same_process[peer])
			continue;
		drop_freed(gpu, peer);
		for (uint32_t place = 0; place < RD_EXPORTS; place++) {
			struct rd_import noted = get(gpu, peer, place), made;

			if (noted.wanted)
				import(gpu, peer, place, noted.wanted, &noted.handle, &made);
		}
	}
}

void rd_imports_drop(struct rd_gpu *gpu)
{
	for (int peer = 0; peer < RD_WORK_RANKS; peer++)
		for (int i = 0; i < RD_EXPORTS; i++)
			if (gpu->imports[peer][i].generation)
				gpu->ops->drop(gpu->device, gpu->imports[peer][i].base);
}

/* ---- Bounces --------------------------------------------------------------------------------- */

static int grow(struct rd_gpu *gpu, struct rd_bounce *bounce, size_t size)
{
	void *memory;
	int err = gpu->ops->alloc(gpu->device, size, &memory);

	if (err)
		return err;
	if (bounce->memory) {
		rd_gpu_await(gpu, gpu->number - 1);
		gpu->ops->free(bounce->memory);
	}
	bounce->memory = memory;
	bounce->size = size;
	return 0;
}

int rd_bounce_get(struct rd_gpu *gpu, int which, const void *buffer, size_t size, void **at)
{
	struct rd_bounce *bounce = &gpu->bounces[which];
	int err = 0;

	if (!bounce->logged)
		rd_log(RD_INFO, RD_ROUTE,
			"rank %d: other processes cannot map the memory at %p (%s): calls copy it "
			"within the device first",
			gpu->comm->rank, buffer, rondo_last_error());
	bounce->logged = true;
	if (size > bounce->size)
		err = grow(gpu, bounce, size);
	*at = bounce->memory;
	return err;
}

void rd_bounces_free(struct rd_gpu *gpu)
{
	for (int i = 0; i < RD_BOUNCES; i++)
		if (gpu->bounces[i].memory)
			gpu->ops->free(gpu->bounces[i].memory);
}
