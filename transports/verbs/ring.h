/*
 * The ring of messages in one direction of a link. The receiver's memory holds it, and the sender
 * has one of the same size, in which messages lie at the same offsets until they may be forgotten.
 *
 * A slot holds a header and a payload, in whole cache lines, and never wraps: behind a slot there
 * is room for the largest one, or the next is at the start. So both sides know from the sizes of
 * the messages where the next one lies.
 *
 * Positions count bytes from the first message on, and the bytes left out at the ring's end.
 */
#ifndef RD_VERBS_RING_H
#define RD_VERBS_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arith.h"
#include "rondo/transport.h"

#define RD_VERBS_SLOT_UNIT 64
/* Messages that a direction holds at most, however small. */
#define RD_VERBS_MESSAGES 64
/* Room for messages of any sizes that the receiver may hold back: two, and what fragments. */
#define RD_VERBS_RING_SPARE 3

struct rd_verbs_header {
	uint32_t size; /* of the payload, bytes */
	/* The message's number, modulo 2^32; with checksums a CRC of number, size, tag, payload. */
	uint32_t check;
	struct rd_tag tag;
};

/*
 * Memory in which the receiver wants the payload of a message. The receiver writes it to the peer's
 * memory, right before the ring there.
 */
struct rd_verbs_landing {
	uint64_t number; /* of the message */
	uint64_t address;
	uint32_t key; /* remote key, on the rail that brought this */
	uint32_t size; /* of the payload: exactly that many bytes; 0: none is wanted */
	uint64_t check; /* of the members above: the peer may write while they are read */
	uint64_t zero[4]; /* so that rings begin with a cache line */
};

struct rd_verbs_ring {
	size_t size; /* bytes */
	size_t most; /* bytes of the largest slot */
};

/* Where a slot begins. */
struct rd_verbs_cursor {
	uint64_t position;
	size_t offset; /* in the ring */
};

static inline size_t rd_verbs_slot_size(size_t payload)
{
	return rd_round_up(sizeof(struct rd_verbs_header) + payload, RD_VERBS_SLOT_UNIT);
}

/* A ring for `slots` messages of message_max bytes, and at least two of any sizes. */
static inline struct rd_verbs_ring rd_verbs_ring_of(int slots, size_t message_max)
{
	size_t most = rd_verbs_slot_size(message_max);
	size_t count = slots < RD_VERBS_RING_SPARE + 1 ? RD_VERBS_RING_SPARE + 1 : (size_t)slots;

	return (struct rd_verbs_ring){ (count + 1) * most, most };
}

/* Moves behind a message of that many bytes. */
static inline void rd_verbs_cursor_pass(
	struct rd_verbs_cursor *cursor, const struct rd_verbs_ring *ring, size_t payload)
{
	size_t slot = rd_verbs_slot_size(payload);

	cursor->position += slot;
	cursor->offset += slot;
	if (cursor->offset + ring->most > ring->size) {
		cursor->position += ring->size - cursor->offset;
		cursor->offset = 0;
	}
}

/* Whether a message fits at `next`, where the oldest one that must stay is at `oldest`. */
static inline bool rd_verbs_ring_has_room(const struct rd_verbs_ring *ring,
	const struct rd_verbs_cursor *next, uint64_t oldest, size_t payload)
{
	return next->position + rd_verbs_slot_size(payload) - oldest <= ring->size;
}

/*
 * Whether the receiver should return its credits by themselves. Before that, the sender has room
 * for two messages of any sizes beside those whose credits the receiver keeps.
 */
static inline bool rd_verbs_credits_due(
	const struct rd_verbs_ring *ring, uint64_t kept_messages, uint64_t kept_bytes)
{
	return kept_messages >= RD_VERBS_MESSAGES / 2 ||
	       kept_bytes >= ring->size - RD_VERBS_RING_SPARE * ring->most;
}

#endif
