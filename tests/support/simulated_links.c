#include "simulated_links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static struct link_end *end_of(struct rd_link *link)
{
	return (struct link_end *)link;
}

static struct link_message *message_at(const struct link_end *end, uint64_t number)
{
	return &end->messages[number % (uint64_t)end->links->slots];
}

static uint64_t latest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void add_event(const struct link_end *end, enum link_event kind, uint64_t time_ns)
{
	end->links->add_event(end->links->context, kind, end->number, time_ns);
}

/* One latency from now. */
static uint64_t soon(const struct link_end *end)
{
	return *end->links->now_ns + end->links->latency_ns;
}

static void fail(struct link_end *end, const char *why)
{
	if (end->link.error)
		return;
	end->link.error = RONDO_BROKEN;
	snprintf(end->link.reason, sizeof(end->link.reason), "%s", why);
}

/* All messages that have arrived here are released. */
static bool all_read(const struct link_end *end)
{
	return end->other->arrived == end->other->released;
}

/* ---- The contract's functions -------------------------------------------------------------- */

static bool has_room(struct link_end *end)
{
	/* Messages that the peer had sent may still lie here unread; a sender to it gets the
	   error at once. */
	if (end->gone)
		fail(end, end->gone);
	return !end->link.error && end->sent - end->returned < (uint64_t)end->links->slots;
}

/* Sends the message in slot `sent`. */
static void ship(struct link_end *end, const struct rd_tag *tag, size_t size)
{
	struct simulated_links *links = end->links;
	struct link_message *message = message_at(end, end->sent++);
	uint64_t start = latest(*links->now_ns, end->busy_until_ns);

	message->tag = *tag;
	message->size = size;
	message->landed = NULL;
	end->busy_until_ns = start + (uint64_t)(size * links->byte_ns);
	end->last_arrival_ns = latest(end->last_arrival_ns,
		end->busy_until_ns + links->latency_ns + links->delay(links->context));
	add_event(end, LINK_ARRIVAL, end->last_arrival_ns);
	links->messages++;
	links->message_bytes += size;
}

static void *link_reserve(struct rd_link *link, size_t size)
{
	struct link_end *end = end_of(link);

	(void)size;
	return has_room(end) ? message_at(end, end->sent)->bytes : NULL;
}

static void link_commit(struct rd_link *link, const struct rd_tag *tag, size_t size)
{
	struct link_end *end = end_of(link);

	message_at(end, end->sent)->from = NULL;
	link->unsent = end->links->needs_sender;
	ship(end, tag, size);
}

static bool link_send(struct rd_link *link, const struct rd_tag *tag, const void *from, size_t size)
{
	struct link_end *end = end_of(link);

	if (!has_room(end))
		return false;
	message_at(end, end->sent)->from = from;
	link->posted++;
	ship(end, tag, size);
	return true;
}

static void land(struct link_message *message, void *into)
{
	if (message->size)
		memcpy(into, message->bytes, message->size);
	message->landed = into;
}

/* From here until the message has arrived the memory is the link's. */
static void expect(struct link_end *end, void *into, size_t size)
{
	if (!end->links->zero_copy || !into || end->into == into)
		return;
	end->into = into;
	end->into_size = size;
	memset(into, SIMULATED_NOISE, size);
}

static bool link_recv(struct rd_link *link, void *into, size_t size, struct rd_message *received)
{
	struct link_end *end = end_of(link);
	struct link_message *message = message_at(end->other, end->other->released);

	if (link->error)
		return false;
	if (all_read(end)) {
		expect(end, into, size);
		return false;
	}
	if (!message->landed && end->links->zero_copy && into && message->size == size)
		land(message, into);
	received->data = message->landed ? message->landed : message->bytes;
	received->size = message->size;
	received->tag = &message->tag;
	return true;
}

static void link_release(struct rd_link *link)
{
	struct link_end *end = end_of(link);
	struct link_message *message = message_at(end->other, end->other->released++);

	memset(message->bytes, SIMULATED_NOISE, message->size);
	end->into = NULL;
	add_event(end->other, LINK_ROOM, soon(end));
	if (end->gone && all_read(end))
		fail(end, end->gone);
}

static const struct rd_link_ops copying = {
	.reserve = link_reserve,
	.commit = link_commit,
	.recv = link_recv,
	.release = link_release,
};

static const struct rd_link_ops zero_copying = {
	.reserve = link_reserve,
	.commit = link_commit,
	.send = link_send,
	.recv = link_recv,
	.release = link_release,
};

/* ---- Events -------------------------------------------------------------------------------- */

static void arrive(struct link_end *end)
{
	struct simulated_links *links = end->links;
	struct link_end *other = end->other;
	struct link_message *message = message_at(end, end->arrived);
	bool awaited = end->arrived == end->released && other->into &&
		       other->into_size == message->size && !other->closed;
	const char *why = NULL;

	/* Neither is memory read that has gone, nor any for a peer that has. */
	if (end->severed || (message->from && (end->forgotten || end->gone)))
		return;
	if (message->from && message->size)
		memcpy(message->bytes, message->from, message->size);
	if (links->spoil)
		why = links->spoil(links->context, end, message->bytes, message->size);
	if (awaited)
		land(message, other->into);
	if (message->from || end->link.unsent)
		add_event(end, LINK_SENT, soon(end));
	if (why)
		fail(other, why);
	end->arrived++;
}

static void learn_sent(struct link_end *end)
{
	if (end->link.sent < end->link.posted)
		end->link.sent++;
	if (end->arrived == end->sent)
		end->link.unsent = false;
}

static void lose_peer(struct link_end *end, const char *why)
{
	end->gone = why;
	end->link.unsent = false;
	end->link.sent = end->link.posted;
}

int simulated_links_take(struct simulated_links *links, enum link_event kind, int number)
{
	struct link_end *end = &links->ends[number];

	if (kind == LINK_ARRIVAL) {
		arrive(end);
		return end->link.peer;
	}
	if (end->closed)
		return end->rank;
	if (kind == LINK_SENT)
		learn_sent(end);
	else if (kind == LINK_ROOM)
		end->returned++;
	else
		lose_peer(end, "closed its connection");
	/* The link fails once all messages that have arrived are read. */
	if (kind == LINK_CLOSE && all_read(end))
		fail(end, end->gone);
	return end->rank;
}

void simulated_links_close(struct simulated_links *links, int rank, bool forgets)
{
	for (int i = 0; i < links->end_count; i++) {
		struct link_end *end = &links->ends[i];

		if (end->rank != rank || end->closed)
			continue;
		end->closed = true;
		end->forgotten = forgets;
		add_event(end->other, LINK_CLOSE, latest(soon(end), end->last_arrival_ns));
	}
}

void simulated_links_sever(struct simulated_links *links, int a, int b)
{
	for (int i = 0; i < links->end_count; i++) {
		struct link_end *end = &links->ends[i];

		if ((end->rank != a || end->link.peer != b) &&
			(end->rank != b || end->link.peer != a))
			continue;
		lose_peer(end, "was reset by the network");
		end->severed = true;
		fail(end, end->gone);
	}
}

/* ---- Life ---------------------------------------------------------------------------------- */

static struct rd_link **place_of(
	const struct simulated_links *links, int rank, int peer, int channel)
{
	return &links->of[((size_t)rank * links->size + peer) * links->channels + channel];
}

struct rd_link **simulated_links_of(const struct simulated_links *links, int rank)
{
	return place_of(links, rank, 0, 0);
}

static void init_end(struct simulated_links *links, int rank, int peer, int channel)
{
	int number = links->end_count++;
	struct link_end *end = &links->ends[number];

	*end = (struct link_end){
		.link = {
			.ops = links->zero_copy ? &zero_copying : &copying,
			.peer = peer,
			.channel = channel,
			.ready = true,
			.message_max = links->piece_size,
			.send_min = links->needs_sender ? SIZE_MAX : 0,
			.shares_room = !links->needs_sender,
		},
		.links = links,
		.number = number,
		.rank = rank,
		.messages = links->room + (size_t)number * links->slots,
	};
	for (int i = 0; i < links->slots; i++)
		end->messages[i].bytes =
			links->bytes + ((size_t)number * links->slots + i) * links->piece_size;
	*place_of(links, rank, peer, channel) = &end->link;
}

static bool is_used(const struct simulated_links *links, const char *used, int rank, int peer)
{
	return rank != peer && (!used || used[rank * links->size + peer]);
}

static void init_ends(struct simulated_links *links, const char *used)
{
	for (int rank = 0; rank < links->size; rank++)
		for (int peer = 0; peer < links->size; peer++)
			for (int channel = 0; channel < links->channels; channel++)
				if (is_used(links, used, rank, peer))
					init_end(links, rank, peer, channel);
	for (int i = 0; i < links->end_count; i++) {
		struct link_end *end = &links->ends[i];

		end->other = end_of(*place_of(links, end->link.peer, end->rank, end->link.channel));
	}
}

int simulated_links_open(struct simulated_links *links, const char *used)
{
	size_t pairs = (size_t)links->size * links->size, ends = 0;

	for (int rank = 0; rank < links->size; rank++)
		for (int peer = 0; peer < links->size; peer++)
			ends += is_used(links, used, rank, peer) ? links->channels : 0;
	/* One more: an allocation of nothing may give NULL. */
	links->of = calloc(pairs * links->channels, sizeof(*links->of));
	links->ends = calloc(ends + 1, sizeof(*links->ends));
	links->room = calloc(ends * links->slots + 1, sizeof(*links->room));
	links->bytes = calloc(ends * links->slots + 1, links->piece_size);
	if (!links->of || !links->ends || !links->room || !links->bytes)
		return rd_fail(RONDO_MEMORY, "no memory for %zu links", ends);
	memset(links->bytes, SIMULATED_NOISE, ends * links->slots * links->piece_size);
	init_ends(links, used);
	return 0;
}

void simulated_links_finish(struct simulated_links *links)
{
	free(links->of);
	free(links->ends);
	free(links->room);
	free(links->bytes);
}
