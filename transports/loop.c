/*
 * loop: a rank's link to itself. One link is both ends: its recv() returns the messages that its
 * commit() and send() put into a queue of slots in plain memory.
 *
 *   slot      tag, size, from      from: the caller's memory (send), or this slot's own room
 *   room      message_max bytes    one a slot, behind the slots
 *
 * `head` counts messages put in, `tail` messages released; slot = count % slots. One thread does
 * all of it, so no side needs waking and none can die.
 *
 * Two ranks in one process have equal places. reach() cannot distinguish a rank from its neighbour,
 * so it returns -1. A rank that needs a link to itself selects loop by name.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transports/transports.h"

struct slot {
	struct rd_tag tag;
	size_t size;
	const void *from;
	bool sent; /* by send(): link->sent counts its release */
};

struct loop_link {
	struct rd_link base;
	struct loop_link *next;
	unsigned slots;
	uint64_t head, tail;
	size_t stride;
	char *rooms;
	struct slot queue[];
};

struct loop_endpoint {
	struct rd_endpoint base;
	const struct rd_local *local;
	struct loop_link *links;
};

static struct slot *slot_at(struct loop_link *link, uint64_t number)
{
	return &link->queue[number % link->slots];
}

static bool is_full(const struct loop_link *link)
{
	return link->head - link->tail == link->slots;
}

static void *room_at(struct loop_link *link, uint64_t number)
{
	return link->rooms + number % link->slots * link->stride;
}

static void *loop_reserve(struct rd_link *base, size_t size)
{
	struct loop_link *link = (struct loop_link *)base;

	(void)size;
	return is_full(link) ? NULL : room_at(link, link->head);
}

static void link_enqueue(
	struct loop_link *link, const struct rd_tag *tag, const void *from, size_t size, bool sent)
{
	*slot_at(link, link->head) =
		(struct slot){ .tag = *tag, .size = size, .from = from, .sent = sent };
	link->head++;
}

static void loop_commit(struct rd_link *base, const struct rd_tag *tag, size_t size)
{
	struct loop_link *link = (struct loop_link *)base;

	link_enqueue(link, tag, room_at(link, link->head), size, false);
}

/* recv() returns the caller's memory in place. */
static bool loop_send(struct rd_link *base, const struct rd_tag *tag, const void *from, size_t size)
{
	struct loop_link *link = (struct loop_link *)base;

	/* The contract demands 8-byte alignment of received messages. */
	if (is_full(link))
		return false;
	if ((uintptr_t)from % 8 != 0) {
		memcpy(room_at(link, link->head), from, size);
		from = room_at(link, link->head);
	}
	link_enqueue(link, tag, from, size, true);
	base->posted++;
	return true;
}

static bool loop_recv(struct rd_link *base, void *into, size_t size, struct rd_message *message)
{
	struct loop_link *link = (struct loop_link *)base;
	const struct slot *slot = slot_at(link, link->tail);

	(void)into;
	(void)size;
	if (link->tail == link->head)
		return false;
	*message = (struct rd_message){ .data = slot->from, .size = slot->size, .tag = &slot->tag };
	return true;
}

static void loop_release(struct rd_link *base)
{
	struct loop_link *link = (struct loop_link *)base;

	if (slot_at(link, link->tail)->sent)
		base->sent++;
	link->tail++;
}

static const struct rd_link_ops loop_ops = {
	.reserve = loop_reserve,
	.commit = loop_commit,
	.send = loop_send,
	.recv = loop_recv,
	.release = loop_release,
};

static int loop_reach(const struct rd_place *here, const struct rd_place *there)
{
	(void)here;
	(void)there;
	return -1;
}

static int loop_listen(struct rd_endpoint **out, const struct rd_local *local,
	unsigned char card[RD_CARD_MAX], size_t *card_size)
{
	struct loop_endpoint *endpoint = calloc(1, sizeof(*endpoint));

	(void)card;
	if (!endpoint)
		return rd_fail(RONDO_MEMORY, "no memory for a loop endpoint");
	endpoint->base.transport = &rd_transport_loop;
	endpoint->base.message_max = local->settings->piece_size;
	endpoint->local = local;
	*card_size = 0;
	*out = &endpoint->base;
	return 0;
}

static void link_destroy(struct loop_link *link)
{
	free(link->rooms);
	free(link);
}

static struct loop_link *link_create(const struct rd_settings *settings)
{
	unsigned slots = (unsigned)settings->slots;
	struct loop_link *link = calloc(1, sizeof(*link) + slots * sizeof(link->queue[0]));

	if (!link)
		return NULL;
	link->slots = slots;
	link->stride = (settings->piece_size + 63) / 64 * 64;
	link->rooms = aligned_alloc(64, slots * link->stride);
	if (!link->rooms) {
		free(link);
		return NULL;
	}
	return link;
}

static int loop_open(struct rd_endpoint *base, int peer, int channel, const unsigned char *card,
	size_t card_size, struct rd_link **out)
{
	struct loop_endpoint *endpoint = (struct loop_endpoint *)base;
	const struct rd_local *local = endpoint->local;
	struct loop_link *link;

	(void)card;
	if (peer != local->rank)
		return rd_fail(
			RONDO_INVALID, "loop joins a rank with itself, not with rank %d", peer);
	if (card_size != 0)
		return rd_fail(
			RONDO_PROTOCOL, "a card of %zu bytes for loop, which has none", card_size);
	link = link_create(local->settings);
	if (!link)
		return rd_fail(RONDO_MEMORY, "no memory for a loop link");
	link->base.ops = &loop_ops;
	link->base.transport = &rd_transport_loop;
	link->base.peer = peer;
	link->base.channel = channel;
	link->base.ready = true;
	link->base.message_max = local->settings->piece_size;
	link->next = endpoint->links;
	endpoint->links = link;
	*out = &link->base;
	return 0;
}

static bool loop_advance(struct rd_endpoint *base)
{
	(void)base;
	return false;
}

static void loop_close(struct rd_endpoint *base)
{
	struct loop_endpoint *endpoint = (struct loop_endpoint *)base;

	while (endpoint->links) {
		struct loop_link *link = endpoint->links;

		endpoint->links = link->next;
		link_destroy(link);
	}
	free(endpoint);
}

const struct rd_transport rd_transport_loop = {
	.abi = RD_TRANSPORT_ABI,
	.name = "loop",
	.reach = loop_reach,
	.listen = loop_listen,
	.open = loop_open,
	.advance = loop_advance,
	.close = loop_close,
	.abandon = loop_close, /* it has no descriptor */
	.shares = true,
};
