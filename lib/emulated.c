/*
 * Pretend GPUs: memory in memfds, streams as threads, handles by which other processes map that
 * memory. What a kernel does is done by the stream's thread, with the host's reductions.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "clock.h"
#include "device.h"
#include "emulated.h"
#include "error.h"
#include "word.h"

/* A stream that waits looks at its word again after so long, also when nobody woke it. */
#define LOOK_NS 1000000

static int current(void)
{
	return -1;
}

/* Streams are threads: all run at once. What that decides is tested by RONDO_KERNEL. */
static bool shared_at_once(int device)
{
	(void)device;
	return false;
}

static int check_device(int device)
{
	if (device >= 0 && device < rd_emulated_count())
		return 0;
	return rd_fail(RONDO_INVALID, "there is no device %d: this process sees %d (RONDO_DEVICE)",
		device, rd_emulated_count());
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* An allocation of ours, or another process's that is mapped here (then imported). */
struct block {
	struct block *next;
	struct rd_allocation allocation;
	int fd;
	bool imported;
};

/* What a handle's bytes are. */
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

static int map_block(struct block *block)
{
	struct rd_allocation *allocation = &block->allocation;

	allocation->base =
		mmap(NULL, allocation->size, PROT_READ | PROT_WRITE, MAP_SHARED, block->fd, 0);
	if (allocation->base == MAP_FAILED)
		return rd_fail_errno("cannot map %zu bytes of a pretend GPU", allocation->size);
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
		return rd_fail_errno("cannot make memory of a pretend GPU");
	if (ftruncate(block->fd, (off_t)block->allocation.size) < 0 ||
		fcntl(block->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return rd_fail_errno(
			"cannot make %zu bytes of a pretend GPU", block->allocation.size);
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
	int err = check_device(device);

	if (err)
		return err;
	if (size > SIZE_MAX / 2)
		return rd_fail(RONDO_MEMORY, "%zu bytes are too many for a pretend GPU", size);

	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		return rd_fail(RONDO_MEMORY, "no memory for a pretend GPU");
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
		return rd_fail(RONDO_UNSUPPORTED, "these pretend GPUs have no IPC handles");
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

/* The size is the file's word, which is sealed, and not the ticket's. */
static int open_ticket(struct block *block, const struct ticket *ticket)
{
	char path[64];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%lld/fd/%lld", (long long)ticket->pid,
		(long long)ticket->fd);
	block->fd = open(path, O_RDWR | O_CLOEXEC);
	if (block->fd < 0)
		return rd_fail_errno("cannot open the memory of process %lld's pretend GPU",
			(long long)ticket->pid);
	if (fstat(block->fd, &status) < 0 || (uint64_t)status.st_size != ticket->size ||
		!(fcntl(block->fd, F_GET_SEALS) & F_SEAL_SHRINK))
		return rd_fail(RONDO_PROTOCOL,
			"process %lld's handle is of no memory of a pretend GPU",
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

/* ---- Streams ------------------------------------------------------------------------------- */

/* What one stream says to another: it has come this far. */
struct mark {
	_Atomic int holders;
	uint32_t passed;
};

struct event {
	uint32_t recorded, reached; /* how often */
	int64_t at_ns;
};

enum item_kind { WAIT, WRITE, COPY, RUN, RUN_STEPS, PASS, FOLLOW, STAMP };

struct item {
	struct item *next;
	enum item_kind kind;
	uint32_t *word, value;
	void *to;
	const void *from;
	size_t size;
	struct mark *mark;
	struct event *event; /* STAMP */
	_Alignas(16) char what[]; /* RUN: struct rd_work; RUN_STEPS: struct rd_steps */
};

struct lane {
	pthread_t thread;
	int device;
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct item *first, **last;
	uint64_t queued, done;
	bool closing;
};

static void wait_for(const uint32_t *word, uint32_t value)
{
	while (!rd_word_reached(word, value)) {
		uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);

		if ((int32_t)(seen - value) < 0)
			rd_word_sleep(word, seen, LOOK_NS);
	}
}

static void let_go(struct mark *mark)
{
	if (mark && atomic_fetch_sub(&mark->holders, 1) == 1)
		free(mark);
}

static void run_item(struct item *item)
{
	switch (item->kind) {
	case WAIT:
		wait_for(item->word, item->value);
		break;
	case WRITE:
		rd_word_write(item->word, item->value);
		break;
	case COPY:
		memmove(item->to, item->from, item->size);
		break;
	case RUN:
		rd_emulated_run((const struct rd_work *)item->what);
		break;
	case RUN_STEPS:
		rd_emulated_steps((const struct rd_steps *)item->what);
		break;
	case PASS:
		rd_word_write(&item->mark->passed, 1);
		break;
	case FOLLOW:
		wait_for(&item->mark->passed, 1);
		break;
	case STAMP:
		item->event->at_ns = rd_clock_ns();
		rd_word_write(&item->event->reached, item->value);
		break;
	}
	let_go(item->mark);
	free(item);
}

static void *work_off(void *argument)
{
	struct lane *lane = argument;

	pthread_mutex_lock(&lane->lock);
	while (lane->first || !lane->closing) {
		struct item *item = lane->first;

		if (!item) {
			pthread_cond_wait(&lane->change, &lane->lock);
			continue;
		}
		lane->first = item->next;
		if (!lane->first)
			lane->last = &lane->first;
		pthread_mutex_unlock(&lane->lock);
		run_item(item);
		pthread_mutex_lock(&lane->lock);
		lane->done++;
		pthread_cond_broadcast(&lane->change);
	}
	pthread_mutex_unlock(&lane->lock);
	return NULL;
}

static int start_thread(struct lane *lane)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);

	int err = pthread_create(&lane->thread, NULL, work_off, lane);

	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err;
}

static int stream_create(int device, void **stream)
{
	int err = check_device(device);

	if (err)
		return err;

	struct lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return rd_fail(RONDO_MEMORY, "no memory for a stream");
	lane->device = device;
	lane->last = &lane->first;
	pthread_mutex_init(&lane->lock, NULL);
	pthread_cond_init(&lane->change, NULL);
	err = start_thread(lane);
	if (err) {
		free(lane);
		return rd_fail(RONDO_SYSTEM, "cannot start a stream's thread: %s", strerror(err));
	}
	*stream = lane;
	return 0;
}

static void stream_destroy(int device, void *stream)
{
	struct lane *lane = stream;

	(void)device;
	if (!lane)
		return;
	pthread_mutex_lock(&lane->lock);
	lane->closing = true;
	pthread_cond_broadcast(&lane->change);
	pthread_mutex_unlock(&lane->lock);
	pthread_join(lane->thread, NULL);
	pthread_mutex_destroy(&lane->lock);
	pthread_cond_destroy(&lane->change);
	free(lane);
}

static int stream_synchronize(int device, void *stream)
{
	struct lane *lane = stream;

	(void)device;
	pthread_mutex_lock(&lane->lock);

	uint64_t until = lane->queued;

	while (lane->done < until)
		pthread_cond_wait(&lane->change, &lane->lock);
	pthread_mutex_unlock(&lane->lock);
	return 0;
}

static int stream_check(int device, void *stream)
{
	const struct lane *lane = stream;
	int err = check_device(device);

	if (err)
		return err;
	if (lane && lane->device == device)
		return 0;
	return rd_fail(RONDO_INVALID, "this stream is not of device %d", device);
}

static bool stream_captures(void *stream)
{
	(void)stream;
	return false;
}

static int enqueue_with(void *stream, const struct item *how, const void *what, size_t size)
{
	struct lane *lane = stream;
	struct item *item = calloc(1, sizeof(*item) + size);

	if (!item)
		return rd_fail(RONDO_MEMORY, "no memory to queue work on a stream");
	*item = *how;
	if (size > 0)
		memcpy(item->what, what, size);
	pthread_mutex_lock(&lane->lock);
	*lane->last = item;
	lane->last = &item->next;
	lane->queued++;
	pthread_cond_broadcast(&lane->change);
	pthread_mutex_unlock(&lane->lock);
	return 0;
}

static int enqueue(void *stream, const struct item *how)
{
	return enqueue_with(stream, how, NULL, 0);
}

static int stream_follow(int device, void *stream, void *earlier)
{
	struct mark *mark = calloc(1, sizeof(*mark));

	(void)device;
	if (!mark)
		return rd_fail(RONDO_MEMORY, "no memory to queue work on a stream");
	mark->holders = 2;

	int err = enqueue(earlier, &(struct item){ .kind = PASS, .mark = mark });

	if (err) {
		free(mark);
		return err;
	}
	err = enqueue(stream, &(struct item){ .kind = FOLLOW, .mark = mark });
	if (err)
		let_go(mark);
	return err;
}

static int event_create(int device, void **event)
{
	int err = check_device(device);

	if (err)
		return err;
	*event = calloc(1, sizeof(struct event));
	return *event ? 0 : rd_fail(RONDO_MEMORY, "no memory for an event");
}

static void event_destroy(int device, void *event)
{
	struct event *gone = event;

	(void)device;
	wait_for(&gone->reached, gone->recorded);
	free(gone);
}

static int event_record(int device, void *stream, void *event)
{
	struct event *stamped = event;

	(void)device;
	stamped->recorded++;
	return enqueue(stream,
		&(struct item){ .kind = STAMP, .event = stamped, .value = stamped->recorded });
}

static int event_elapsed(int device, void *from, void *to, double *us)
{
	const struct event *first = from, *last = to;

	(void)device;
	wait_for(&first->reached, first->recorded);
	wait_for(&last->reached, last->recorded);
	*us = (double)(last->at_ns - first->at_ns) / 1e3;
	return 0;
}

static int wait_word(int device, void *stream, uint32_t *word, uint32_t value)
{
	(void)device;
	return enqueue(stream, &(struct item){ .kind = WAIT, .word = word, .value = value });
}

static int write_word(int device, void *stream, uint32_t *word, uint32_t value)
{
	(void)device;
	return enqueue(stream, &(struct item){ .kind = WRITE, .word = word, .value = value });
}

static int copy(int device, void *stream, void *to, const void *from, size_t size)
{
	(void)device;
	return enqueue(
		stream, &(struct item){ .kind = COPY, .to = to, .from = from, .size = size });
}

static int run(int device, void *stream, const struct rd_work *work)
{
	(void)device;
	return enqueue_with(stream, &(struct item){ .kind = RUN }, work, sizeof(*work));
}

static int run_steps(int device, void *stream, const struct rd_steps *steps)
{
	(void)device;
	return enqueue_with(stream, &(struct item){ .kind = RUN_STEPS }, steps, sizeof(*steps));
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
	.alloc = alloc,
	.free = emulated_free,
	.export = export,
	.import = import,
	.drop = drop,
	.peer = rd_emulated_reach,
	.share = share,
	.unshare = stop_sharing,
	.stream_create = stream_create,
	.stream_destroy = stream_destroy,
	.stream_synchronize = stream_synchronize,
	.stream_check = stream_check,
	.stream_captures = stream_captures,
	.stream_follow = stream_follow,
	.event_create = event_create,
	.event_destroy = event_destroy,
	.event_record = event_record,
	.event_elapsed = event_elapsed,
	.wait_word = wait_word,
	.write_word = write_word,
	.copy = copy,
	.run = run,
	.run_steps = run_steps,
	.blocks = blocks,
};
