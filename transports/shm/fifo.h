/*
 * The FIFOs and links of shm: one FIFO a direction and channel, in memory that two ranks share.
 * pair.h handles connections, deaths and regions. One thread at a time uses a link.
 *
 *   channel   cells of 128 bytes           those of its two FIFOs in turn, the lower rank's first
 *             room[slots] room[slots]      each a multiple of 128 bytes: a message's payload
 *   fifo      consumed                     a cell of its own: messages released, ever
 *             waits.message waits.room     a cell of their own: 1: the reader sleeps, for a
 *                                          message or for room in the other FIFO
 *             line[RD_SHM_LINES]           a cell each, 64 bytes of which are used
 *   line      0   stamp   low half: the message's number; high half: see "room"
 *             4   size    and where the payload is (enum)
 *             8   tag
 *             32  payload of up to 32 bytes (the message is then one cache line),
 *                 or the payload's address in the sender's memory
 *
 * Messages. The sender writes tag, size and payload in place, then the stamp (release). The
 * receiver polls the stamp of the line where the next message must appear. Flag and data share a
 * cache line, and neither side reads the other's counters. A line's old stamp is RD_SHM_LINES
 * behind the expected one, so half a word suffices for the number. Larger payloads use the rooms in
 * turn.
 *
 * Room returns in two ways. The sender reads `consumed` only when the FIFO seems full. Each message
 * of the other direction also carries the low half of that count in its stamp. So traffic in both
 * directions never reads `consumed`.
 *
 * Single copy. send() does not copy a message (a post): the line holds its address. The receiver
 * reads it there, by process_vm_readv(2), or by memcpy() within one process. A late receiver must
 * not delay the sender, or two ranks could wait for each other. An idle sender therefore copies a
 * post into the room reserved for it, unless the receiver has begun to read. One atomic exchange
 * on `size` decides. A receiver without permission to read the sender's memory refuses, and gets
 * the copy, too.
 *
 * Sleeping. A rank has two flags, in one line, beside the FIFO that it reads. An armed link raises
 * them for FIFOs that it found empty or full. A side that publishes then reads the other side's
 * flag, and writes that rank's eventfd if it is raised.
 *
 * The sleeper raises the flag and then checks the FIFO; the publisher publishes and then reads the
 * flag. One of the two must see the other (Dekker), so each side needs a full barrier in between.
 * The sleeper executes both: membarrier(2) makes every running thread that shares this memory pass
 * one. A message then costs two plain stores. If one side lacks that call (link->fenced), all four
 * accesses are sequentially consistent instead. The eventfd is never read: edge-triggered epoll
 * reports every write.
 */
#ifndef RD_SHM_FIFO_H
#define RD_SHM_FIFO_H

#include <stdatomic.h>
#include <sys/types.h>

#include "rondo/transport.h"

#define RD_SHM_LINES 32
#define RD_SHM_CELL 128
#define RD_SHM_SLOTS_MAX 64
#define RD_SHM_NEAR_MAX 32

struct rd_shm_line {
	_Atomic uint32_t stamp;
	_Atomic uint32_t size;
	struct rd_tag tag;
	unsigned char near[RD_SHM_NEAR_MAX];
};

/* Both FIFOs of a channel begin in one page, so that a link that carries little touches that page
   alone: every page costs each of its two ranks a fault. */
struct rd_shm_fifo {
	_Atomic uint32_t consumed;
	unsigned char others_consumed[2 * RD_SHM_CELL - 4];
	struct rd_shm_waits {
		_Atomic uint32_t message, room;
	} waits; /* of the rank that reads this FIFO */
	unsigned char others_waits[2 * RD_SHM_CELL - 8];
	unsigned char lines[];
};

/* State that all links to one peer share. */
struct rd_shm_peer {
	int wake_fd; /* the peer's eventfd */
	pid_t pid; /* process that single copies read from; 0: unknown */
	bool fenced; /* a side lacks membarrier(2): publications of both need a fence */
	bool ended, goodbye; /* the peer has ended; it sent a goodbye first */
	const bool *armed; /* between arm() and disarm() */
	unsigned *posting; /* number of this rank's links with posts that are not done */
	bool *refused; /* the peer may not read this process's memory, and that has been logged */
};

/* A message that send() has accepted, until its memory is no longer needed. */
struct rd_shm_post {
	struct rd_shm_line *line;
	uint64_t number; /* messages committed, with this one */
	uint32_t size;
	const void *from;
	char *room;
};

struct rd_shm_link {
	struct rd_link base;
	char *in_rooms, *out_rooms;

	/* Each short message reads or writes these. They are a line of the cache. */
	struct rd_shm_fifo *inbound, *outbound;
	struct rd_shm_line *in; /* where the next message must appear */
	struct rd_shm_line *out; /* where the next message goes */
	uint64_t out_count; /* messages committed */
	uint64_t out_limit; /* out_count may go up to here */
	uint32_t in_count; /* messages released */
	uint32_t out_how; /* RD_SHM_NEAR or RD_SHM_IN_ROOM: as reserved last */
	uint16_t in_stamp; /* the expected stamp of the message at `in` */
	bool fenced; /* peer->fenced */
	bool found_empty, found_full; /* the last look at inbound, at outbound */
	bool flagged; /* one of our flags may be raised */

	const struct rd_shm_peer *peer;
	uint32_t slots;
	size_t stride; /* of the rooms */
	uint32_t in_room; /* index of the room of the next large message */
	uint32_t fetched_count; /* in_count of the message that `fetched` is a copy of */
	void *fetched; /* NULL: of none */
	void *stage; /* for single copies that recv() has no `into` for */
	uint32_t out_room; /* index of the room of the next large message */
	uint64_t *room_used; /* [slots]: out_count after its last message */

	struct rd_shm_post *posts; /* [slots]: each has a room */
	uint32_t post_first, post_count;
	unsigned unread_looks; /* times that the first post was found unread */
};

extern const struct rd_link_ops rd_shm_ops;

/* The size of both FIFOs of a channel; a multiple of a page. */
size_t rd_shm_channel_size(size_t piece_size, uint32_t slots);

/* Initialises a link that is not ready yet. The caller fills in `base`, except its ops. */
void rd_shm_link_init(struct rd_shm_link *link, const struct rd_shm_peer *peer);
/* `channel`: the memory of its FIFOs, all zero at first. A link without memory for its slots
   fails. */
void rd_shm_link_start(struct rd_shm_link *link, void *channel, bool lower_rank, uint32_t slots);
/* To be called before the memory is unmapped: copies unread posts into their rooms. */
void rd_shm_link_finish(struct rd_shm_link *link);
/* Frees the link, and leaves shared memory as it is. */
void rd_shm_link_free(struct rd_shm_link *link);

void rd_shm_link_fail(struct rd_shm_link *link, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The peer is gone, and nothing more can arrive from it. */
void rd_shm_link_end(struct rd_shm_link *link);

/* Checks posts, and counts finished ones in link->sent. True: there was one. */
bool rd_shm_link_settle(struct rd_shm_link *link);

/* Returns the pages of its outgoing rooms to the system, if no message lies there. */
void rd_shm_link_trim(struct rd_shm_link *link);

/* Raises flags, if this link waits for something. True: it did. rd_shm_link_barrier() of one of
   those links must follow. */
bool rd_shm_link_arm(struct rd_shm_link *link);
void rd_shm_link_barrier(const struct rd_shm_link *link);
void rd_shm_link_disarm(struct rd_shm_link *link);

#endif
