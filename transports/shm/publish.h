/*
 * How a side of a FIFO (fifo.h) marks its messages and publishes them; for fifo.c and
 * single_copy.c.
 */
#ifndef RD_SHM_PUBLISH_H
#define RD_SHM_PUBLISH_H

#include "base/tsan.h"
#include "transports/shm/fifo.h"

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

/* Stands in for the next message of a link where none can arrive. */
extern struct rd_shm_line rd_shm_no_line;

/* Writes the peer's eventfd. The exchange ensures one write for each sleep. */
void rd_shm_wake_peer(struct rd_shm_link *link, _Atomic uint32_t *waits)
	__attribute__((noinline, cold));

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

/* Messages that the peer had consumed when its count was last read. */
static inline uint64_t rd_shm_consumed_count(const struct rd_shm_link *link)
{
	return link->out_limit - RD_SHM_LINES;
}

static inline bool rd_shm_is_consumed(const struct rd_shm_link *link, uint64_t number)
{
	return rd_shm_consumed_count(link) >= number;
}

/* `count`: the peer's count of consumed messages. False: it is impossible. */
static inline bool rd_shm_update_consumed(struct rd_shm_link *link, uint32_t count)
{
	uint64_t before = rd_shm_consumed_count(link);
	uint32_t newly = count - (uint32_t)before;

	if (newly > link->out_count - before)
		return false;
	link->out_limit += newly;
	return true;
}

/* Reads that count. False: it is impossible, and the link has failed. */
bool rd_shm_read_consumed(struct rd_shm_link *link);

#endif
