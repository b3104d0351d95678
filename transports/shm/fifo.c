#include "transports/shm/fifo.h"

#include <linux/membarrier.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/hot_call.h"
#include "base/arith.h"
#include "base/tsan.h"
#include "base/error.h"
#include "base/log.h"

_Static_assert(sizeof(struct rd_shm_line) == 64, "a short message is one cache line");
_Static_assert(sizeof(struct rd_shm_fifo) == 4 * RD_SHM_CELL, "every second cell is the other's");

/* Where the payload is: flags in `size`, above the bytes. */
enum {
	RD_SHM_NEAR = 0,
	RD_SHM_IN_ROOM = 1u << 31,
	RD_SHM_POSTED = 1u << 30, /* in the sender's memory */
	/* with RD_SHM_POSTED: the receiver reads it; alone: it has read it */
	RD_SHM_TAKEN = 1u << 29,
	RD_SHM_COPYING = 1u << 28, /* the sender is copying it into the room */
	RD_SHM_REFUSED = 1u << 27, /* the receiver cannot read it: the sender must copy it */
	RD_SHM_BYTES = RD_SHM_REFUSED - 1,
};

/*
 * The sender checks an unread post this often before it copies it into its room: for about the time
 * of the copy. With fewer checks it would often copy a message that is read a moment later. The
 * checks at most double the cost of a copy.
 */
static unsigned looks_before_copy(uint32_t size)
{
	return 32 + size / 256;
}

/* Stands in for the next message of a link where none can arrive. */
static struct rd_shm_line no_line;

static size_t room_stride(size_t piece_size)
{
	return rd_round_up(piece_size, 128);
}

#define CELLS_SIZE ((size_t)2 * (2 + RD_SHM_LINES) * RD_SHM_CELL)

size_t rd_shm_channel_size(size_t piece_size, uint32_t slots)
{
	return rd_round_up(CELLS_SIZE + 2 * slots * room_stride(piece_size), 4096);
}

static struct rd_shm_line *line_at(struct rd_shm_fifo *fifo, uint64_t count)
{
	return (struct rd_shm_line *)(fifo->lines + count % RD_SHM_LINES * (2 * RD_SHM_CELL));
}

/* The rooms of the next large message in each direction. */
static char *out_room_of(const struct rd_shm_link *link)
{
	return link->out_rooms + link->out_room * link->stride;
}

static char *in_room_of(const struct rd_shm_link *link)
{
	return link->in_rooms + link->in_room * link->stride;
}

/* ---- Failing --------------------------------------------------------------------------------- */

/* From here on the hot paths find neither message nor room, without another check. */
void rd_shm_link_fail(struct rd_shm_link *link, int error, const char *format, ...)
{
	va_list args;

	if (link->base.error)
		return;
	va_start(args, format);
	vsnprintf(link->base.reason, sizeof(link->base.reason), format, args);
	va_end(args);
	link->base.error = error;
	link->in = &no_line;
	link->in_stamp = 1;
	link->out_limit = link->out_count;
}

void rd_shm_link_end(struct rd_shm_link *link)
{
	rd_shm_link_fail(link, RONDO_BROKEN, "%s",
		link->peer->goodbye ? "closed its connection"
				    : "ended without closing its connection");
}

/* ---- Waking ---------------------------------------------------------------------------------- */

/* The caller must call rd_shm_link_barrier(), then check the FIFOs once more. */
static void raise_flags(struct rd_shm_link *link)
{
	if (link->found_empty)
		atomic_store(&link->inbound->waits.message, 1);
	if (link->found_full || link->post_count > 0)
		atomic_store(&link->inbound->waits.room, 1);
	link->flagged = true;
}

/* After this, each peer sees the raised flags, or this rank sees what that peer published
   before. */
void rd_shm_link_barrier(const struct rd_shm_link *link)
{
	if (!link->fenced)
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

/* Writes the peer's eventfd. The exchange ensures one write for each sleep. */
__attribute__((noinline, cold)) static void rd_shm_wake_peer(
	struct rd_shm_link *link, _Atomic uint32_t *waits)
{
	uint64_t one = 1;

	if (!atomic_exchange(waits, 0))
		return;
	/* Fails only when the count is at its maximum; then the peer is awake. */
	ssize_t written = write(link->peer->wake_fd, &one, sizeof(one));

	(void)written;
}

/*
 * Publishes a value, and wakes the peer if it sleeps for it. Thread fences would do the same, but
 * ThreadSanitizer does not support them.
 */
static inline void rd_shm_publish(
	struct rd_shm_link *link, _Atomic uint32_t *flag, uint32_t value, _Atomic uint32_t *waits)
{
	rd_tsan_release(flag);
	if (__builtin_expect(link->fenced, false)) {
		atomic_store(flag, value);
	} else {
		atomic_store_explicit(flag, value, memory_order_release);
		/* For the compiler. The sleeper orders the processors: rd_shm_link_barrier(). */
		atomic_signal_fence(memory_order_seq_cst);
	}
	if (atomic_load(waits))
		rd_shm_wake_peer(link, waits);
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* Messages that the peer had consumed when its count was last read. */
static uint64_t rd_shm_consumed_count(const struct rd_shm_link *link)
{
	return link->out_limit - RD_SHM_LINES;
}

static bool rd_shm_is_consumed(const struct rd_shm_link *link, uint64_t number)
{
	return rd_shm_consumed_count(link) >= number;
}

/* `count`: the peer's count of consumed messages. False: it is impossible. */
static bool update_consumed(struct rd_shm_link *link, uint32_t count)
{
	uint64_t before = rd_shm_consumed_count(link);
	uint32_t newly = count - (uint32_t)before;

	if (newly > link->out_count - before)
		return false;
	link->out_limit += newly;
	return true;
}

static bool rd_shm_read_consumed(struct rd_shm_link *link)
{
	uint32_t consumed = atomic_load(&link->outbound->consumed);

	rd_tsan_acquire(&link->outbound->consumed);
	if (update_consumed(link, consumed))
		return true;
	rd_shm_link_fail(link, RONDO_PROTOCOL, "released messages that it was never sent");
	return false;
}

static inline bool has_room(const struct rd_shm_link *link, bool large)
{
	return link->out_count != link->out_limit &&
	       (!large || rd_shm_is_consumed(link, link->room_used[link->out_room]));
}

/* The FIFO seems full, or the link is not ready or has failed. */
__attribute__((noinline)) static bool find_room(struct rd_shm_link *link, bool large)
{
	if (!link->base.ready || link->base.error || !rd_shm_read_consumed(link))
		return false;
	if (has_room(link, large)) {
		link->found_full = false;
		return true;
	}
	if (!link->found_full) {
		link->found_full = true;
		if (*link->peer->armed) {
			raise_flags(link);
			rd_shm_link_barrier(link);
			return find_room(link, large);
		}
	}
	/* A dead peer makes no room, even if this rank has not read all of its messages. */
	if (link->peer->ended)
		rd_shm_link_end(link);
	return false;
}

/* The message is large, or the FIFO seems full. */
static __attribute__((noinline)) void *reserve_slowly(struct rd_shm_link *link, bool large)
{
	if (!has_room(link, large) && !find_room(link, large))
		return NULL;
	link->out_how = large ? RD_SHM_IN_ROOM : RD_SHM_NEAR;
	return large ? (void *)out_room_of(link) : link->out->near;
}

static RD_HOT_CALL void *shm_reserve(struct rd_link *base, size_t size)
{
	struct rd_shm_link *link = (struct rd_shm_link *)base;
	bool large = size > RD_SHM_NEAR_MAX;

	if (large || !has_room(link, false))
		return reserve_slowly(link, large);
	link->out_how = RD_SHM_NEAR;
	return link->out->near;
}

/*
 * Fetches the line that is written next, while the core does other work. Stores leave a core in
 * order: a store waits for its line, which the polling core holds, and delays all later ones. Where
 * a line takes 120 ns, 8 bytes in one direction take 100 ns with the prefetch, and 170 without.
 */
static inline void prefetch_to_write(const void *line)
{
#if defined(__x86_64__)
	/* For a generic x86-64, the compiler's builtin is a prefetch for reading. */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

/* Publishes the message, whose payload or address is in place. */
static void put_line(struct rd_shm_link *link, const struct rd_tag *tag, uint32_t flag)
{
	struct rd_shm_line *line = link->out;
	uint64_t count = ++link->out_count;
	struct rd_shm_line *next = line_at(link->outbound, count);

	line->tag = *tag;
	atomic_store_explicit(&line->size, flag, memory_order_relaxed);
	if (__builtin_expect(flag & ~RD_SHM_BYTES, 0)) {
		link->room_used[link->out_room] = count;
		if (++link->out_room == link->slots)
			link->out_room = 0;
	}
	link->out = next;
	rd_shm_publish(link, &line->stamp, (uint16_t)count | link->in_count << 16,
		&link->outbound->waits.message);
	prefetch_to_write(next);
}

static RD_HOT_CALL void shm_commit(struct rd_link *base, const struct rd_tag *tag, size_t size)
{
	struct rd_shm_link *link = (struct rd_shm_link *)base;

	put_line(link, tag, (uint32_t)size | link->out_how);
}

/* ---- Posting --------------------------------------------------------------------------------- */

static void copy_to_room(struct rd_shm_link *link, const struct rd_shm_post *post)
{
	if (post->size > 0)
		memcpy(post->room, post->from, post->size);
	rd_shm_publish(link, &post->line->size, post->size | RD_SHM_IN_ROOM,
		&link->outbound->waits.message);
}

/* Logs the refusal once for all links to the peer. */
__attribute__((noinline, cold)) static void log_refusal(struct rd_shm_link *link)
{
	link->base.send_min = SIZE_MAX;
	if (*link->peer->refused)
		return;
	*link->peer->refused = true;
	rd_log(RD_INFO, RD_NET,
		"NET/SHM : rank %d may not read this process's memory: messages to it are copied "
		"through shared memory instead",
		link->base.peer);
}

/* Copies a post to its room if the peer has not begun to read it. True: the post is done. */
static bool finish_post(struct rd_shm_link *link, const struct rd_shm_post *post, bool at_once)
{
	uint32_t unread = post->size | RD_SHM_POSTED;
	uint32_t flag = atomic_load(&post->line->size);

	if (flag == (post->size | RD_SHM_TAKEN)) {
		rd_tsan_acquire(&post->line->size);
		return true;
	}
	if (flag == (post->size | RD_SHM_REFUSED)) {
		log_refusal(link);
		copy_to_room(link, post);
		return true;
	}
	if (flag == unread && (at_once || ++link->unread_looks > looks_before_copy(post->size)) &&
		atomic_compare_exchange_strong(
			&post->line->size, &unread, post->size | RD_SHM_COPYING)) {
		copy_to_room(link, post);
		return true;
	}
	/* The peer died while it read the post. */
	if (link->peer->ended && flag != unread)
		rd_shm_link_end(link);
	return false;
}

static bool rd_shm_settle_posts(struct rd_shm_link *link, bool at_once)
{
	bool moved = false;

	if (link->base.error || link->post_count == 0 || !rd_shm_read_consumed(link))
		return false;
	while (link->post_count > 0) {
		const struct rd_shm_post *post = &link->posts[link->post_first];

		if (!rd_shm_is_consumed(link, post->number) && !finish_post(link, post, at_once))
			break;
		link->post_first = (link->post_first + 1) % link->slots;
		if (--link->post_count == 0)
			--*link->peer->posting;
		link->unread_looks = 0;
		link->base.sent++;
		moved = true;
	}
	return moved;
}

bool rd_shm_link_settle(struct rd_shm_link *link)
{
	return rd_shm_settle_posts(link, false);
}

static bool shm_send(struct rd_link *base, const struct rd_tag *tag, const void *from, size_t size)
{
	struct rd_shm_link *link = (struct rd_shm_link *)base;
	uint64_t address = (uintptr_t)from;

	if (!has_room(link, true) && !find_room(link, true))
		return false;
	/* The room of the next was that of the oldest, which is done. */
	if (link->post_count == link->slots && !rd_shm_settle_posts(link, false))
		return false;
	memcpy(link->out->near, &address, sizeof(address));
	if (link->post_count == 0)
		++*link->peer->posting;
	link->posts[(link->post_first + link->post_count++) % link->slots] =
		(struct rd_shm_post){ link->out, link->out_count + 1, (uint32_t)size, from,
			out_room_of(link) };
	base->posted++;
	put_line(link, tag, (uint32_t)size | RD_SHM_POSTED);
	/* About to sleep: see arm(). */
	if (*link->peer->armed && rd_shm_link_arm(link)) {
		rd_shm_link_barrier(link);
		rd_shm_settle_posts(link, true);
	}
	return true;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

/* Nothing has arrived, or it is being copied: this rank waits for it. True: the rank is about to
   sleep, and must look again first. */
static bool note_empty(struct rd_shm_link *link)
{
	if (!link->base.ready || link->base.error)
		return false;
	if (!link->found_empty) {
		link->found_empty = true;
		if (*link->peer->armed) {
			raise_flags(link);
			rd_shm_link_barrier(link);
			return true;
		}
	}
	return false;
}

/* Reads the peer's memory at this address. False: this process may not. */
static bool read_peer(const struct rd_shm_link *link, void *into, uint64_t address, size_t size)
{
	pid_t pid = link->peer->pid;

	if (pid == getpid()) {
		if (size > 0)
			memcpy(into, (const void *)(uintptr_t)address, size);
		return true;
	}
	for (size_t done = 0; done < size;) {
		struct iovec here = { (char *)into + done, size - done };
		struct iovec there = { (char *)(uintptr_t)address + done, size - done };
		ssize_t got = pid ? process_vm_readv(pid, &here, 1, &there, 1, 0) : -1;

		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

/* Returns where a single copy goes: the caller's `into` if the message fits, else `stage`. */
static void *copy_place(struct rd_shm_link *link, void *into, bool fits)
{
	if (into && fits)
		return into;
	if (!link->stage)
		link->stage = aligned_alloc(128, link->stride);
	return link->stage;
}

/* Reads the next message by a single copy. True: it has been read, now or before. */
static bool rd_shm_read_post(struct rd_shm_link *link, uint32_t flag, void *into, size_t size)
{
	struct rd_shm_line *line = link->in;
	uint32_t bytes = flag & RD_SHM_BYTES;
	uint64_t address;

	if (link->fetched && link->fetched_count == link->in_count)
		return true;
	if (flag != (bytes | RD_SHM_POSTED) ||
		!atomic_compare_exchange_strong(&line->size, &flag, flag | RD_SHM_TAKEN))
		return false;
	memcpy(&address, line->near, sizeof(address));

	void *at = copy_place(link, into, bytes == size);

	if (at && read_peer(link, at, address, bytes)) {
		link->fetched = at;
		link->fetched_count = link->in_count;
		/* Before the release, which may wait for a post in the other direction. */
		rd_shm_publish(
			link, &line->size, bytes | RD_SHM_TAKEN, &link->outbound->waits.room);
		return true;
	}
	rd_shm_publish(link, &line->size, bytes | RD_SHM_REFUSED, &link->outbound->waits.room);
	return false;
}

/* Each message carries the low half of the peer's count. An older count changes nothing. */
static void update_consumed_low(struct rd_shm_link *link, uint16_t count)
{
	uint32_t before = (uint32_t)rd_shm_consumed_count(link);

	update_consumed(link, before + (uint16_t)(count - (uint16_t)before));
}

/* Where the payload of a larger message lies. NULL: it is still being copied. */
static void *large_payload(struct rd_shm_link *link, uint32_t flag, void *into, size_t size)
{
	if (flag & RD_SHM_IN_ROOM)
		return in_room_of(link);
	return rd_shm_read_post(link, flag, into, size) ? link->fetched : NULL;
}

static void describe(struct rd_shm_link *link, uint32_t stamp, const void *data, uint32_t bytes,
	struct rd_message *message)
{
	rd_tsan_acquire(&link->in->stamp);
	rd_tsan_acquire(&link->in->size);
	update_consumed_low(link, stamp >> 16);
	link->found_empty = false;
	message->data = data;
	message->size = bytes;
	message->tag = &link->in->tag;
}

/* A message whose payload lies beyond its line. False: it is still being copied, or is too long. */
static bool recv_large(struct rd_shm_link *link, uint32_t stamp, uint32_t flag, void *into,
	size_t size, struct rd_message *message)
{
	uint32_t bytes = flag & RD_SHM_BYTES;
	void *data;

	/* Before the peer's memory is read. */
	rd_tsan_acquire(&link->in->stamp);
	rd_tsan_acquire(&link->in->size);
	if (bytes > (flag & ~RD_SHM_BYTES ? link->base.message_max : RD_SHM_NEAR_MAX)) {
		rd_shm_link_fail(link, RONDO_PROTOCOL,
			"sent a message of %u bytes, more than there can be", bytes);
		return false;
	}
	data = large_payload(link, flag, into, size);
	if (data)
		describe(link, stamp, data, bytes, message);
	return data != NULL;
}

/* The next message is large, or has not come. */
static __attribute__((noinline)) bool recv_slowly(
	struct rd_shm_link *link, void *into, size_t size, struct rd_message *message)
{
	for (;;) {
		uint32_t stamp = atomic_load(&link->in->stamp);

		if ((uint16_t)stamp == link->in_stamp) {
			/* Read once: the peer could change it after the check. */
			uint32_t flag = atomic_load_explicit(&link->in->size, memory_order_acquire);

			if (flag <= RD_SHM_NEAR_MAX) {
				describe(link, stamp, link->in->near, flag, message);
				return true;
			}
			if (recv_large(link, stamp, flag, into, size, message))
				return true;
		} else if (link->base.ready) {
			/*
			 * A larger message's payload is a second line. It arrives while this rank
			 * waits for the first, instead of after it. Where a line takes 150 ns, 64
			 * bytes take 190 ns, and 300 without the prefetch.
			 */
			__builtin_prefetch(in_room_of(link));
		}
		if (!note_empty(link))
			break;
	}
	/* The peer stored its last message before its end, and the loop above ran after that. */
	if (link->peer->ended && link->base.ready)
		rd_shm_link_end(link);
	return false;
}

static RD_HOT_CALL bool shm_recv(
	struct rd_link *base, void *into, size_t size, struct rd_message *message)
{
	struct rd_shm_link *link = (struct rd_shm_link *)base;
	struct rd_shm_line *line = link->in;
	uint32_t stamp = atomic_load(&line->stamp);
	uint32_t flag = atomic_load_explicit(&line->size, memory_order_acquire);

	/* `size` counts only where the stamp, which was read first, is the next one. */
	if ((uint16_t)stamp != link->in_stamp || flag > RD_SHM_NEAR_MAX)
		return recv_slowly(link, into, size, message);
	describe(link, stamp, line->near, flag, message);
	return true;
}

static RD_HOT_CALL void shm_release(struct rd_link *base)
{
	struct rd_shm_link *link = (struct rd_shm_link *)base;

	if (__builtin_expect(
		    atomic_load_explicit(&link->in->size, memory_order_relaxed) & ~RD_SHM_BYTES, 0))
		if (++link->in_room == link->slots)
			link->in_room = 0;
	link->in_count++;
	link->in_stamp = (uint16_t)(link->in_count + 1);
	link->in = line_at(link->inbound, link->in_count);
	rd_shm_publish(link, &link->inbound->consumed, link->in_count, &link->outbound->waits.room);
}

/* In one line of the cache, like all that short messages need. */
_Alignas(64) const struct rd_link_ops rd_shm_ops = {
	.reserve = shm_reserve,
	.commit = shm_commit,
	.send = shm_send,
	.recv = shm_recv,
	.release = shm_release,
};

/* ---- A link's life --------------------------------------------------------------------------- */

void rd_shm_link_init(struct rd_shm_link *link, const struct rd_shm_peer *peer)
{
	link->base.ops = &rd_shm_ops;
	link->peer = peer;
	link->in = &no_line;
	link->in_stamp = 1;
}

void rd_shm_link_start(struct rd_shm_link *link, void *channel, bool lower_rank, uint32_t slots)
{
	char *low_fifo = channel, *high_fifo = low_fifo + RD_SHM_CELL;
	char *low_rooms = low_fifo + CELLS_SIZE, *high_rooms;

	link->room_used = calloc(slots, sizeof(*link->room_used));
	link->posts = calloc(slots, sizeof(*link->posts));
	if (!link->room_used || !link->posts) {
		rd_shm_link_fail(link, RONDO_MEMORY, "no memory for a link");
		return;
	}
	link->fenced = link->peer->fenced;
	link->slots = slots;
	link->stride = room_stride(link->base.message_max);
	high_rooms = low_rooms + slots * link->stride;
	link->outbound = (struct rd_shm_fifo *)(lower_rank ? low_fifo : high_fifo);
	link->inbound = (struct rd_shm_fifo *)(lower_rank ? high_fifo : low_fifo);
	link->out_rooms = lower_rank ? low_rooms : high_rooms;
	link->in_rooms = lower_rank ? high_rooms : low_rooms;
	link->in = line_at(link->inbound, 0);
	link->out = line_at(link->outbound, 0);
	link->out_limit = RD_SHM_LINES;
	link->base.ready = true;
}

void rd_shm_link_finish(struct rd_shm_link *link)
{
	if (link->base.ready)
		rd_shm_settle_posts(link, true);
}

void rd_shm_link_free(struct rd_shm_link *link)
{
	free(link->stage);
	free(link->room_used);
	free(link->posts);
	free(link);
}

void rd_shm_link_trim(struct rd_shm_link *link)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = link->slots * link->stride;
	size_t head = -(uintptr_t)link->out_rooms % page;
	uint32_t latest = (link->out_room > 0 ? link->out_room : link->slots) - 1;

	if (link->base.ready && !link->base.error && size >= head + page &&
		rd_shm_read_consumed(link) && rd_shm_is_consumed(link, link->room_used[latest]))
		madvise(link->out_rooms + head, (size - head) / page * page, MADV_REMOVE);
}

bool rd_shm_link_arm(struct rd_shm_link *link)
{
	/* A sleeping sender cannot copy. */
	rd_shm_settle_posts(link, true);
	if (!link->found_empty && !link->found_full && link->post_count == 0)
		return false;
	raise_flags(link);
	return true;
}

void rd_shm_link_disarm(struct rd_shm_link *link)
{
	if (!link->flagged)
		return;
	link->flagged = false;
	atomic_store_explicit(&link->inbound->waits.message, 0, memory_order_relaxed);
	atomic_store_explicit(&link->inbound->waits.room, 0, memory_order_relaxed);
}
