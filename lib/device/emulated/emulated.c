/*
 * Emulated GPUs: memory in memfds, handles by which other processes map that memory, streams as
 * threads (stream.c). The stream's thread runs kernels, with the host's
 * reductions (run.c).
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
#include "device/emulated/emulated.h"
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
struct block {
	struct block *next;
	struct rd_allocation allocation;
	int fd;
	bool imported;
};

/* The bytes of a handle. */
struct ticket {
	int64_t pid, fd, device;
	uint64_t id, size;
};

_Static_assert(sizeof(struct ticket) <= sizeof(struct rd_handle), "a ticket fits in a handle");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks_known;
static uint64_t last_id;

static bool find(const void *at, struct rd_allocation *allocation)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (const struct block *block = blocks_known; block && !found; block = block->next) {
		const struct rd_allocation *candidate = &block->allocation;

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

static int map_block(struct block *block)
{
	struct rd_allocation *allocation = &block->allocation;

	allocation->base =
		mmap(NULL, allocation->size, PROT_READ | PROT_WRITE, MAP_SHARED, block->fd, 0);
	if (allocation->base == MAP_FAILED)
		return rd_fail_errno("cannot map %zu bytes of an emulated GPU", allocation->size);
	pthread_mutex_lock(&lock);
	if (!block->imported)
		allocation->id = ++last_id;
	block->next = blocks_known;
	blocks_known = block;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int open_block(struct block *block)
{
	block->fd = memfd_create("rondo-gpu", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (block->fd < 0)
		return rd_fail_errno("cannot make memory of an emulated GPU");
	if (ftruncate(block->fd, (off_t)block->allocation.size) < 0 ||
		fcntl(block->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return rd_fail_errno(
			"cannot make %zu bytes of an emulated GPU", block->allocation.size);
	return map_block(block);
}

static void free_block(struct block *block)
{
	if (block->fd >= 0)
		close(block->fd);
	free(block);
}

static int alloc(int device, size_t size, void **memory)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int err = rd_emulated_check_device(device);

	if (err)
		return err;
	if (size > SIZE_MAX / 2)
		return rd_fail(RONDO_MEMORY, "%zu bytes are too many for an emulated GPU", size);

	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		return rd_fail(RONDO_MEMORY, "no memory for an emulated GPU");
	block->fd = -1;
	block->allocation.device = device;
	block->allocation.size = (size + page - 1) / page * page;
	err = open_block(block);
	if (err)
		free_block(block);
	else
		*memory = block->allocation.base;
	return err;
}

/* Takes the block that begins at base off the list; NULL: there is none. */
static struct block *forget(const void *base, bool imported)
{
	struct block *found = NULL;

	pthread_mutex_lock(&lock);
	for (struct block **at = &blocks_known; *at && !found; at = &(*at)->next) {
		if ((*at)->allocation.base != base || (*at)->imported != imported)
			continue;
		found = *at;
		*at = found->next;
		break;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void unmap(struct block *block)
{
	if (!block)
		return;
	munmap(block->allocation.base, block->allocation.size);
	free_block(block);
}

static int emulated_free(void *memory)
{
	struct block *block = forget(memory, false);

	if (!block)
		return rd_fail(RONDO_INVALID, "%p is not the start of device memory", memory);
	unmap(block);
	return 0;
}

static int export(const void *base, struct rd_handle *handle)
{
	struct ticket ticket = { .pid = getpid(), .fd = -1 };

	if (!rd_emulated_has_handles())
		return rd_fail(RONDO_UNSUPPORTED, "these emulated GPUs have no IPC handles");
	pthread_mutex_lock(&lock);
	for (const struct block *block = blocks_known; block; block = block->next) {
		if (block->allocation.base != base || block->imported)
			continue;
		ticket.fd = block->fd;
		ticket.device = block->allocation.device;
		ticket.id = block->allocation.id;
		ticket.size = block->allocation.size;
	}
	pthread_mutex_unlock(&lock);
	if (ticket.fd < 0)
		return rd_fail(RONDO_INVALID, "%p is not the start of device memory", base);
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &ticket, sizeof(ticket));
	return 0;
}

/* The size is the file's flag, which is sealed, and not the ticket's. */
static int open_ticket(struct block *block, const struct ticket *ticket)
{
	char path[64];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long)ticket->pid,
		(long long)ticket->fd);
	block->fd = open(path, O_RDWR | O_CLOEXEC);
	if (block->fd < 0)
		return rd_fail_errno("cannot open the memory of process %lld's emulated GPU",
			(long long)ticket->pid);
	if (fstat(block->fd, &status) < 0 || (uint64_t)status.st_size != ticket->size ||
		!(fcntl(block->fd, F_GET_SEALS) & F_SEAL_SHRINK))
		return rd_fail(RONDO_PROTOCOL,
			"process %lld's handle is of no memory of an emulated GPU",
			(long long)ticket->pid);
	block->allocation.size = ticket->size;
	return map_block(block);
}

static int import(int device, const struct rd_handle *handle, void **base, size_t *size)
{
	struct ticket ticket;

	memcpy(&ticket, handle, sizeof(ticket));

	int err = rd_emulated_reach(device, (int)ticket.device);

	if (err)
		return err;

	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		return rd_fail(RONDO_MEMORY, "no memory for a mapping");
	block->imported = true;
	block->allocation.device = (int)ticket.device;

	err = open_ticket(block, &ticket);
	if (err) {
		free_block(block);
		return err;
	}
	*base = block->allocation.base;
	*size = block->allocation.size;
	return 0;
}

static void drop(int device, void *base)
{
	(void)device;
	unmap(forget(base, true));
}

static int share(void *memory, size_t size)
{
	(void)memory;
	(void)size;
	return 0;
}

static void stop_sharing(void *memory)
{
	(void)memory;
}

static int blocks(int device)
{
	(void)device;
	return RD_WORK_BLOCKS;
}

const struct rd_device_ops rd_emulated = {
	.name = "emulated",
	.count = rd_emulated_count,
	.current = current,
	.pci = rd_emulated_pci,
	.shared_at_once = shared_at_once,
	.find = find,
	.pageable = pageable,
	.alloc = alloc,
	.free = emulated_free,
	.export = export,
	.import = import,
	.drop = drop,
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
	.stream_follow = rd_emulated_stream_follow,
	.event_create = rd_emulated_event_create,
	.event_destroy = rd_emulated_event_destroy,
	.event_record = rd_emulated_event_record,
	.event_elapsed = rd_emulated_event_elapsed,
	.wait_flag = rd_emulated_wait_flag,
	.write_flag = rd_emulated_write_flag,
	.copy = rd_emulated_copy,
	.run = rd_emulated_launch,
	.run_steps = rd_emulated_launch_steps,
	.run_transfers = rd_emulated_launch_transfers,
	.blocks = blocks,
};
