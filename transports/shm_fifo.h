/*
 * The messages of shm: one FIFO a direction and channel, in memory that two ranks share, and the links
 * over them. Meeting, deaths and regions are shm.c's business.
 *
 *   fifo      consumed                     128 bytes of its own: messages released, ever
 *             reader_waits writer_waits    128 bytes of their own: somebody sleeps: ring the bell
 *             line[RD_SHM_LINES]           128 bytes each, 64 of which are used
 *             room[slots]                  each a multiple of 128 bytes: a message's payload
 *   line      0   stamp   low half: the message's number; high half: see "room"
 *             4   size    and how to come by the payload (enum)
 *             8   tag
 *             32  payload of up to 32 bytes: such a message is one cache line;
 *                 or where the payload lies in the sender's memory
 *
 * Messages. The sender writes tag, size and payload in place, then the stamp (release). The
 * receiver polls the stamp of the line where the next message must appear: flag and data are one
 * line, and nobody reads the other's counters. A line's old stamp lies RD_SHM_LINES behind the
 * expected one, so half a word of number cannot be mistaken. Larger payloads take the rooms in turn.
 *
 * Room comes back twice: by `consumed`, which the sender reads only when it believes the FIFO full;
 * and with each message of the other direction, whose stamp carries the low half of that count, so
 * that traffic both ways never touches `consumed` at all.
 *
 * Single copy. What send() posts is not copied here: the line says where it lies, and the receiver
 * reads it from there (process_vm_readv(2); within one process, plainly). A receiver that is late must
 * not hold the sender up, and one that waits for the sender could not be waited for: so a sender with
 * time on its hands copies what it posted into the room that it has kept for that, unless the
 * receiver has begun to read. One exchange on `size` decides between the two. A receiver that may not
 * read the sender's memory refuses, and gets the copy too.
 *
 * Sleeping. Each FIFO has a flag for its reader and one for its writer. A link that is armed raises
 * those of what it found empty or full; who publishes looks at that one flag afterwards,
 * and rings the other rank's eventfd. Raising the flag and looking again at the FIFO here,
 * publishing and looking at the flag there: one of the two must see the other (Dekker), so each
 * side needs a full barrier in between. The sleeper pays for both: membarrier(2) makes every
 * running thread that shares this memory pass one, so that a message costs two plain stores. Where
 * either side lacks that call (link->fenced), all four are sequentially consistent instead. The
 * eventfd is never read: edge-triggered epoll reports every write.
 */
#ifndef RD_SHM_FIFO_H
#define RD_SHM_FIFO_H

#include <stdatomic.h>
#include <sys/types.h>

#include "rondo/transport.h"

#define RD_SHM_LINES 32
#define RD_SHM_LINE_STRIDE 128
#define RD_SHM_SLOTS_MAX 64
#define RD_SHM_NEAR_MAX 32

struct rd_shm_line {
	_Atomic uint32_t stamp;
	_Atomic uint32_t size;
	struct rd_tag tag;
	unsigned char near[RD_SHM_NEAR_MAX];
};

struct rd_shm_fifo {
	_Alignas(128) _Atomic uint32_t consumed;
	_Alignas(128) _Atomic uint32_t reader_waits;
	_Atomic uint32_t writer_waits;
	_Alignas(128) unsigned char lines[];
};

/* What all links to one peer share. */
struct rd_shm_peer {
	int bell; /* the peer's eventfd */
	pid_t pid; /* whose memory it is that single copies are read from; 0: not to be known */
	bool fenced; /* the peer's sleep relies on a fence of ours after each publication, or ours on its */
	bool ended, goodbye; /* it is gone; it said so */
	const bool *armed; /* this rank is about to sleep */
	unsigned *posting; /* links of this rank with posts under way */
	bool *refused; /* the peer may not read this process's memory, which has been said */
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
	const struct rd_shm_peer *peer;
	struct rd_shm_fifo *inbound, *outbound;
	uint32_t slots;
	size_t stride; /* of the rooms */

	struct rd_shm_line *in; /* where the next message must appear */
	uint16_t in_stamp; /* and what its stamp must be */
	uint32_t in_count; /* messages released */
	uint32_t in_room; /* index of the room that the next large one has */
	void *fetched; /* where the message at `in` was read to; NULL: not a single copy, or not yet */
	void *stage; /* for those that are not to land anywhere */

	struct rd_shm_line *out; /* where the next message goes */
	uint64_t out_count; /* messages committed */
	uint64_t out_limit; /* out_count may go up to here */
	uint32_t out_room; /* index of the next large one's room */
	uint32_t out_how; /* of the room given out last */
	uint64_t room_used[RD_SHM_SLOTS_MAX]; /* out_count after the message that had it last */

	struct rd_shm_post posts[RD_SHM_SLOTS_MAX];
	uint32_t post_first, post_count;
	unsigned patience; /* looks at the first post that found it still unread */

	bool hungry, starved; /* the last look found it empty, full */
	bool said; /* a flag of ours may be up */
};

extern const struct rd_link_ops rd_shm_ops;

size_t rd_shm_fifo_size(size_t piece_size, uint32_t slots);

/* A link that is not ready yet. `base` but for its ops is the caller's to fill in. */
void rd_shm_link_init(struct rd_shm_link *link, const struct rd_shm_peer *peer);
void rd_shm_link_start(struct rd_shm_link *link, struct rd_shm_fifo *inbound,
	struct rd_shm_fifo *outbound, uint32_t slots);
/* Before the memory is unmapped: posted messages are left where the peer finds them. */
void rd_shm_link_finish(struct rd_shm_link *link);
/* In a forked child: frees the link, and leaves shared memory as it is. */
void rd_shm_link_abandon(struct rd_shm_link *link);

void rd_shm_link_fail(struct rd_shm_link *link, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The peer is gone and nothing can come from it any more. */
void rd_shm_link_end(struct rd_shm_link *link);

/* Learns what became of posts. True: some memory is free again. */
bool rd_shm_link_settle(struct rd_shm_link *link);

/* Raises the flags; true: it did, and rd_shm_link_barrier() of one such link must follow. */
bool rd_shm_link_arm(struct rd_shm_link *link);
void rd_shm_link_barrier(const struct rd_shm_link *link);
void rd_shm_link_disarm(struct rd_shm_link *link);

#endif
