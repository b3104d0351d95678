/*
 * Emulated GPUs: memory in memfds, handles by which other processes map that memory, streams as
 * threads (stream.c). The stream's thread runs kernels, with the host's reductions (work.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/device.h"
#include "base/descriptor.h"
#include "gpus.h"
#include "worker.h"
#include "base/error.h"

static int current(void)
{
	return -1;
}

/* Streams are threads: all run at once. */
static bool shared_at_once(int device)
{
	(void)device;
	return false;
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* An allocation of ours, or another process's that is mapped here (then imported). */
struct mapping {
	struct mapping *next;
	struct rd_allocation allocation;
	int fd;
	bool imported;
	bool has_handle;
};

/* The bytes of a handle. */
struct handle_data {
	int64_t pid, fd, device;
	uint64_t id, size;
};

_Static_assert(sizeof(struct handle_data) <= sizeof(struct rd_handle), "its bytes fit in a handle");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping *mappings;
static uint64_t last_id;

static bool find(const void *at, struct rd_allocation *allocation)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (const struct mapping *mapping = mappings; mapping && !found; mapping = mapping->next) {
		const struct rd_allocation *candidate = &mapping->allocation;

		found = (const char *)at >= candidate->base &&
			(const char *)at < candidate->base + candidate->size;
		if (found)
			*allocation = *candidate;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

/* A stream is a thread, which copies any memory. */
static bool pageable(const void *at)
{
	(void)at;
	return false;
}

static int map_memory(struct mapping *mapping)
{
	struct rd_allocation *allocation = &mapping->allocation;

	allocation->base =
		mmap(NULL, allocation->size, PROT_READ | PROT_WRITE, MAP_SHARED, mapping->fd, 0);
	if (allocation->base == MAP_FAILED)
		return rd_fail_errno("cannot map %zu bytes of an emulated GPU", allocation->size);
	pthread_mutex_lock(&lock);
	if (!mapping->imported)
		allocation->id = ++last_id;
	mapping->next = mappings;
	mappings = mapping;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int create_memory(struct mapping *mapping)
{
	mapping->fd = rd_above_stderr(memfd_create("rondo-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (mapping->fd < 0)
		return rd_fail_errno("cannot make memory of an emulated GPU");
	if (ftruncate(mapping->fd, (off_t)mapping->allocation.size) < 0 ||
		fcntl(mapping->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return rd_fail_errno(
			"cannot make %zu bytes of an emulated GPU", mapping->allocation.size);
	return map_memory(mapping);
}

static void free_mapping(struct mapping *mapping)
{
	if (mapping->fd >= 0)
		close(mapping->fd);
	free(mapping);
}

static int alloc(int device, size_t size, void **memory)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int err = rd_emulated_check_device(device);

	if (err)
		return err;
	if (size > SIZE_MAX / 2)
		return rd_fail(RONDO_MEMORY, "%zu bytes are too many for an emulated GPU", size);

	struct mapping *mapping = calloc(1, sizeof(*mapping));

	if (!mapping)
		return rd_fail(RONDO_MEMORY, "no memory for an emulated GPU");
	mapping->fd = -1;
	mapping->has_handle = rd_emulated_has_handles();
	mapping->allocation.device = device;
	mapping->allocation.size = (size + page - 1) / page * page;
	err = create_memory(mapping);
	if (err)
		free_mapping(mapping);
	else
		*memory = mapping->allocation.base;
	return err;
}

/* Takes the mapping that begins at base off the list; NULL: there is none. */
static struct mapping *forget(const void *base, bool imported)
{
	struct mapping *found = NULL;

	pthread_mutex_lock(&lock);
	for (struct mapping **at = &mappings; *at && !found; at = &(*at)->next) {
		if ((*at)->allocation.base != base || (*at)->imported != imported)
			continue;
		found = *at;
		*at = found->next;
		break;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void unmap(struct mapping *mapping)
{
	if (!mapping)
		return;
	munmap(mapping->allocation.base, mapping->allocation.size);
	free_mapping(mapping);
}

static int emulated_free(void *memory)
{
	struct mapping *mapping = forget(memory, false);

	if (!mapping)
		return rd_fail(RONDO_INVALID, "%p is not the start of device memory", memory);
	unmap(mapping);
	return 0;
}

static int export(const void *base, struct rd_handle *handle)
{
	struct handle_data data = { .pid = getpid(), .fd = -1 };
	bool has_handle = true;

	pthread_mutex_lock(&lock);
	for (const struct mapping *mapping = mappings; mapping; mapping = mapping->next) {
		if (mapping->allocation.base != base || mapping->imported)
			continue;
		data.fd = mapping->fd;
		data.device = mapping->allocation.device;
		data.id = mapping->allocation.id;
		data.size = mapping->allocation.size;
		has_handle = mapping->has_handle;
	}
	pthread_mutex_unlock(&lock);
	if (!has_handle)
		return rd_fail(RONDO_UNSUPPORTED, "this memory has no IPC handle");
	if (data.fd < 0)
		return rd_fail(RONDO_INVALID, "%p is not the start of device memory", base);
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &data, sizeof(data));
	return 0;
}

/* Uses the file's size, which is sealed, and not the handle's. */
static int open_handle(struct mapping *mapping, const struct handle_data *data)
{
	char path[64];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long)data->pid,
		(long long)data->fd);
	mapping->fd = rd_above_stderr(open(path, O_RDWR | O_CLOEXEC));
	if (mapping->fd < 0)
		return rd_fail_errno("cannot open the memory of process %lld's emulated GPU",
			(long long)data->pid);
	if (fstat(mapping->fd, &status) < 0 || (uint64_t)status.st_size != data->size ||
		!(fcntl(mapping->fd, F_GET_SEALS) & F_SEAL_SHRINK))
		return rd_fail(RONDO_PROTOCOL,
			"process %lld's handle is of no memory of an emulated GPU",
			(long long)data->pid);
	mapping->allocation.size = data->size;
	return map_memory(mapping);
}

static int import(int device, const struct rd_handle *handle, void **base, size_t *size)
{
	struct handle_data data;

	memcpy(&data, handle, sizeof(data));

	int err = rd_emulated_reach(device, (int)data.device);

	if (err)
		return err;

	struct mapping *mapping = calloc(1, sizeof(*mapping));

	if (!mapping)
		return rd_fail(RONDO_MEMORY, "no memory for a mapping");
	mapping->imported = true;
	mapping->allocation.device = (int)data.device;

	err = open_handle(mapping, &data);
	if (err) {
		free_mapping(mapping);
		return err;
	}
	*base = mapping->allocation.base;
	*size = mapping->allocation.size;
	return 0;
}

static void drop(int device, void *base)
{
	(void)device;
	unmap(forget(base, true));
}

/* The memfd stands in for a dma-buf. */
static int dmabuf(void *base, size_t size, int *fd, size_t *offset)
{
	struct rd_handle handle;
	struct handle_data data;
	struct rd_allocation allocation;
	int err;

	if (!find(base, &allocation) ||
		size > allocation.size - (size_t)((char *)base - allocation.base))
		return rd_fail(
			RONDO_INVALID, "%zu bytes at %p are not in device memory", size, base);
	err = export(allocation.base, &handle);
	if (err)
		return err;
	memcpy(&data, &handle, sizeof(data));
	*fd = fcntl((int)data.fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	*offset = (size_t)((char *)base - allocation.base);
	return *fd < 0 ? rd_fail_errno("cannot copy a descriptor") : 0;
}

/* ---- Host memory --------------------------------------------------------------------------- */

/* A stream's thread accesses any memory. This list is what a real device could access. */
struct shared {
	struct shared *next;
	char *memory;
	size_t size;
};

static struct shared *all_shared;

static int share(int device, void *memory, size_t size)
{
	struct shared *shared = malloc(sizeof(*shared));

	(void)device;
	if (!shared)
		return rd_fail(RONDO_MEMORY, "no memory to share host memory with devices");
	pthread_mutex_lock(&lock);
	*shared = (struct shared){ all_shared, memory, size };
	all_shared = shared;
	pthread_mutex_unlock(&lock);
	return 0;
}

static void stop_sharing(int device, void *memory)
{
	struct shared **at = &all_shared, *gone;

	(void)device;
	pthread_mutex_lock(&lock);
	while (*at && (*at)->memory != memory)
		at = &(*at)->next;
	gone = *at;
	if (gone)
		*at = gone->next;
	pthread_mutex_unlock(&lock);
	free(gone);
}

static bool pinned(int device, const void *at, size_t size)
{
	const char *first = at;
	bool found = false;

	(void)device;
	pthread_mutex_lock(&lock);
	for (const struct shared *shared = all_shared; shared && !found; shared = shared->next)
		found = first >= shared->memory && size <= shared->size &&
			(size_t)(first - shared->memory) <= shared->size - size;
	pthread_mutex_unlock(&lock);
	return found;
}

static int copy_now(int device, void *to, const void *from, size_t size)
{
	(void)device;
	memmove(to, from, size);
	return 0;
}

static int blocks(int device)
{
	(void)device;
	return RD_WORK_BLOCKS;
}

/* ---- Graphs -------------------------------------------------------------------------------- */

static int graph_begin(int device, void *stream)
{
	(void)device;
	return rd_emulated_capture(stream);
}

static int graph_end(int device, void *stream, void **graph)
{
	(void)device;
	return rd_emulated_capture_end(stream, (struct rd_emulated_graph **)graph);
}

static int graph_launch(int device, void *stream, void *graph)
{
	(void)device;
	return rd_emulated_replay(graph, stream);
}

static void graph_destroy(int device, void *graph)
{
	(void)device;
	rd_emulated_graph_destroy(graph);
}

const struct rd_device_ops rd_emulated = {
	.name = "emulated",
	.count = rd_emulated_count,
	.current = current,
	.pci = rd_emulated_pci,
	.shared_at_once = shared_at_once,
	.find = find,
	.pageable = pageable,
	.pinned = pinned,
	.alloc = alloc,
	.free = emulated_free,
	.export = export,
	.import = import,
	.drop = drop,
	.dmabuf = dmabuf,
	.peer = rd_emulated_reach,
	.share = share,
	.unshare = stop_sharing,
	.stream_create = rd_emulated_stream_create,
	.stream_destroy = rd_emulated_stream_destroy,
	.stream_synchronize = rd_emulated_stream_synchronize,
	.stream_query = rd_emulated_stream_query,
	.stream_check = rd_emulated_stream_check,
	.stream_captures = rd_emulated_stream_captures,
	.ignore_captures = rd_emulated_ignore_captures,
	.graph_begin = graph_begin,
	.graph_end = graph_end,
	.graph_launch = graph_launch,
	.graph_destroy = graph_destroy,
	.stream_follow = rd_emulated_stream_follow,
	.event_create = rd_emulated_event_create,
	.event_destroy = rd_emulated_event_destroy,
	.event_record = rd_emulated_event_record,
	.event_elapsed = rd_emulated_event_elapsed,
	.post_flags = rd_emulated_post_flags,
	.copy = rd_emulated_copy,
	.copy_now = copy_now,
	.run = rd_emulated_launch,
	.run_small = rd_emulated_launch_small,
	.run_steps = rd_emulated_launch_steps,
	.run_transfers = rd_emulated_launch_transfers,
	.blocks = blocks,
};
