/* The ring of messages of verbs: where slots lie, and how much room credits leave. */
#include <criterion/criterion.h>
#include <string.h>

#include "transports/verbs/ring.h"
#include "base/hash.h"
#include "transports/verbs/landing.h"

#define IN_FLIGHT 1024

struct slot {
	struct rd_verbs_cursor at;
	size_t payload;
};

/* Both ends of a ring: messages between `released` and `sent` lie in it. */
struct ends {
	struct rd_verbs_ring ring;
	struct rd_verbs_cursor out, in;
	struct slot slots[IN_FLIGHT];
	uint64_t sent, received, returned, returned_position;
};

static uint64_t state;

static size_t draw(size_t most)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (size_t)(state >> 33) % (most + 1);
}

/* Most messages are short, or as long as they may be. */
static size_t draw_payload(const struct ends *ends)
{
	size_t most = ends->ring.most - sizeof(struct rd_verbs_header);

	switch (draw(3)) {
	case 0:
		return most;
	case 1:
		return draw(most);
	default:
		return draw(most < 100 ? most : 100);
	}
}

static uint64_t oldest(const struct ends *ends)
{
	return ends->returned == ends->sent ? ends->out.position
					    : ends->slots[ends->returned % IN_FLIGHT].at.position;
}

static bool send_one(struct ends *ends, size_t payload)
{
	struct slot *slot = &ends->slots[ends->sent % IN_FLIGHT];

	if (ends->sent - ends->returned == RD_VERBS_MESSAGES ||
		!rd_verbs_ring_has_room(&ends->ring, &ends->out, oldest(ends), payload))
		return false;
	*slot = (struct slot){ ends->out, payload };
	cr_assert_leq(slot->at.offset + rd_verbs_slot_size(payload), ends->ring.size);
	for (uint64_t other = ends->returned; other < ends->sent; other++) {
		const struct slot *that = &ends->slots[other % IN_FLIGHT];

		cr_assert(that->at.offset + rd_verbs_slot_size(that->payload) <= slot->at.offset ||
				  slot->at.offset + rd_verbs_slot_size(payload) <= that->at.offset,
			"message %lu overwrites message %lu", ends->sent, other);
	}
	rd_verbs_cursor_pass(&ends->out, &ends->ring, payload);
	ends->sent++;
	return true;
}

static void receive_one(struct ends *ends)
{
	const struct slot *slot = &ends->slots[ends->received % IN_FLIGHT];

	cr_assert_eq(ends->in.offset, slot->at.offset, "message %lu", ends->received);
	rd_verbs_cursor_pass(&ends->in, &ends->ring, slot->payload);
	ends->received++;
	if (!rd_verbs_credits_due(&ends->ring, ends->received - ends->returned,
		    ends->in.position - ends->returned_position))
		return;
	ends->returned = ends->received;
	ends->returned_position = ends->in.position;
}

static void run(int slots, size_t message_max)
{
	struct ends ends = { .ring = rd_verbs_ring_of(slots, message_max) };
	size_t most = ends.ring.most - sizeof(struct rd_verbs_header);

	for (int round = 0; round < 3000; round++) {
		for (size_t count = draw(8); count > 0 && send_one(&ends, draw_payload(&ends));
			count--)
			;
		for (size_t count = draw(8); count > 0 && ends.received < ends.sent; count--)
			receive_one(&ends);
		if (ends.received < ends.sent)
			continue;
		/* The receiver may keep credits: two of the largest find room all the same. */
		cr_assert(send_one(&ends, most) && send_one(&ends, most),
			"no room for two messages, slots %d, message_max %zu", slots, message_max);
	}
	cr_assert_gt(ends.sent, 3000);
}

Test(verbs_ring, keeps_messages_apart_and_has_room_for_two)
{
	static const size_t sizes[] = { 64, 1000, 4096, 128 << 10, 1 << 20 };

	for (int slots = 2; slots < 10; slots++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			run(slots, sizes[i]);
}

/* ---- Announcements --------------------------------------------------------------------------- */

/* Announcements of verbs: the peer writes them into memory that this rank reads meanwhile. */

static struct rd_verbs_landing announced(uint64_t number, uint64_t address)
{
	struct rd_verbs_landing landing = {
		.number = number, .address = address, .key = 7, .size = 8192
	};

	landing.check = rd_hash(RD_HASH_INIT, &landing, offsetof(struct rd_verbs_landing, check));
	return landing;
}

Test(verbs_landing, an_announcement_is_taken_whole_or_not_at_all)
{
	struct rd_verbs_landing first = announced(41, 0x10000), second = announced(42, 0x20000);
	struct rd_verbs_landing memory = first;
	struct rd_verbs_link link = { .memory = &memory };

	rd_verbs_landing_arrived(&link, 1);
	cr_assert_eq(memcmp(&link.out.landing, &first, sizeof(first)), 0);
	cr_assert_eq(link.out.landing_rail, 1);
	/* The second one arrives in order, or in any other: 8 bytes at a time. */
	for (unsigned part = 1; part < 15; part++) {
		memory = first;
		for (unsigned i = 0; i < 4; i++)
			if (part >> i & 1)
				memcpy((uint64_t *)&memory + i, (uint64_t *)&second + i, 8);
		/* They have the same key and size, the third part. */
		if ((part & 11) == 0 || (part & 11) == 11)
			continue;
		rd_verbs_landing_arrived(&link, 1);
		cr_assert_eq(link.out.landing.size, 0, "parts %u of the second were taken", part);
	}
}
