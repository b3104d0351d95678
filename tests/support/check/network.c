#include "check/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- Time and random numbers --------------------------------------------------------------- */

/* splitmix64: S. Vigna, public domain (prng.di.unimi.it/splitmix64.c). */
uint64_t rd_network_draw(struct rd_network *network, uint64_t most)
{
	uint64_t x = network->random += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	x ^= x >> 31;
	return most == UINT64_MAX ? x : x % (most + 1);
}

void rd_network_add_event(
	struct rd_network *network, enum rd_network_event kind, int subject, uint64_t time_ns)
{
	struct rd_timed_event event = { .time_ns = time_ns, .kind = kind, .subject = subject };
	int err = rd_event_queue_put(&network->events, event);

	if (err)
		network->error = err;
}

/* ---- Links --------------------------------------------------------------------------------- */

static struct rd_link_end *end_of(struct rd_link *link)
{
	return (struct rd_link_end *)link;
}

static struct rd_network_message *message_at(const struct rd_link_end *end, uint64_t number)
{
	return &end->messages[number % end->network->set->slots];
}

static void fail(struct rd_link_end *end)
{
	end->link.error = RONDO_BROKEN;
	snprintf(end->link.reason, sizeof(end->link.reason), "closed its connection");
}

static bool has_room(struct rd_link_end *end)
{
	/* Messages that the peer had sent may still lie here unread; a sender to it gets the
	   error at once. */
	if (end->peer_gone && !end->link.error)
		fail(end);
	return !end->link.error && end->sent - end->returned < (uint64_t)end->network->set->slots;
}

/* Sends the message in slot `sent`. */
static void ship(struct rd_link_end *end, const struct rd_tag *tag, size_t size)
{
	struct rd_network *network = end->network;
	const struct rd_simulation *set = network->set;
	struct rd_network_message *message = message_at(end, end->sent++);
	uint64_t start = rd_latest(network->now_ns, end->busy_until_ns);

	message->tag = *tag;
	message->size = size;
	message->landed = NULL;
	end->busy_until_ns = start + (uint64_t)(size * set->byte_ns);
	end->last_arrival_ns = rd_latest(end->last_arrival_ns,
		end->busy_until_ns + set->latency_ns + rd_network_draw(network, set->jitter_ns));
	rd_network_add_event(network, RD_EVENT_ARRIVAL, end->number, end->last_arrival_ns);
	network->simulated->messages++;
	network->simulated->bytes += size;
}

static void *link_reserve(struct rd_link *link, size_t size)
{
	struct rd_link_end *end = end_of(link);

	(void)size;
	return has_room(end) ? message_at(end, end->sent)->bytes : NULL;
}

static void link_commit(struct rd_link *link, const struct rd_tag *tag, size_t size)
{
	struct rd_link_end *end = end_of(link);

	message_at(end, end->sent)->from = NULL;
	link->unsent = end->network->set->repeated;
	ship(end, tag, size);
}

static bool link_send(struct rd_link *link, const struct rd_tag *tag, const void *from, size_t size)
{
	struct rd_link_end *end = end_of(link);

	if (!has_room(end))
		return false;
	message_at(end, end->sent)->from = from;
	link->posted++;
	ship(end, tag, size);
	return true;
}

static void land(struct rd_network_message *message, void *into, const void *from)
{
	if (message->size)
		memcpy(into, from, message->size);
	message->landed = into;
}

/* From here until the message has arrived the memory is the link's. */
static void expect(struct rd_link_end *end, void *into, size_t size)
{
	if (!end->network->set->zero_copy || !into || end->into == into)
		return;
	end->into = into;
	end->into_size = size;
	memset(into, RD_NOISE, size);
}

/* All messages that have arrived here are released. */
static bool all_read(const struct rd_link_end *end)
{
	return end->other->arrived == end->other->released;
}

static bool link_recv(struct rd_link *link, void *into, size_t size, struct rd_message *received)
{
	struct rd_link_end *end = end_of(link);
	struct rd_network_message *message = message_at(end->other, end->other->released);

	if (link->error)
		return false;
	if (all_read(end)) {
		expect(end, into, size);
		return false;
	}
	if (!message->landed && end->network->set->zero_copy && into && message->size == size)
		land(message, into, message->bytes);
	received->data = message->landed ? message->landed : message->bytes;
	received->size = message->size;
	received->tag = &message->tag;
	return true;
}

static void link_release(struct rd_link *link)
{
	struct rd_link_end *end = end_of(link);
	struct rd_network *network = end->network;
	struct rd_network_message *message = message_at(end->other, end->other->released++);

	memset(message->bytes, RD_NOISE, message->size);
	end->into = NULL;
	rd_network_add_event(network, RD_EVENT_ROOM, end->other->number,
		network->now_ns + network->set->latency_ns);
	if (end->peer_gone && all_read(end))
		fail(end);
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

void rd_link_end_arrive(struct rd_link_end *end)
{
	struct rd_network *network = end->network;
	const struct rd_link_end *other = end->other;
	struct rd_network_message *message = message_at(end, end->arrived);
	const void *from = message->from ? message->from : message->bytes;
	bool awaited =
		end->arrived == end->released && other->into && other->into_size == message->size;

	if (awaited)
		land(message, other->into, from);
	else if (message->from && message->size)
		memcpy(message->bytes, message->from, message->size);
	if (message->from || end->link.unsent)
		rd_network_add_event(network, RD_EVENT_SENT, end->number,
			network->now_ns + network->set->latency_ns);
	end->arrived++;
}

void rd_link_end_sent(struct rd_link_end *end)
{
	if (end->link.sent < end->link.posted)
		end->link.sent++;
	if (end->arrived == end->sent)
		end->link.unsent = false;
}

void rd_link_end_close(struct rd_link_end *end)
{
	end->peer_gone = true;
	end->link.unsent = false;
	end->link.sent = end->link.posted;
	if (all_read(end) && !end->link.error)
		fail(end);
}

/* ---- Creating and freeing it --------------------------------------------------------------- */

/* Marks the pairs of ranks of which one names the other: they need a link. */
static void mark_pairs(const struct rd_plan *const *plans, int size, char *used)
{
	for (int rank = 0; rank < size; rank++) {
		const struct rd_plan *plan = plans[rank];

		for (int i = 0; i < plan->step_count; i++) {
			const struct rd_step *step = &plan->steps[i];

			if (rd_step_takes(step))
				used[rank * size + step->peer] = used[step->peer * size + rank] = 1;
			if (rd_step_puts(step))
				used[rank * size + step->to] = used[step->to * size + rank] = 1;
		}
	}
}

static void init_end(struct rd_network *network, int rank, int peer, int channel)
{
	const struct rd_simulation *set = network->set;
	int number = network->end_count++;
	struct rd_link_end *end = &network->ends[number];
	*end = (struct rd_link_end){
		.link = {
			.ops = set->zero_copy ? &zero_copying : &copying,
			.peer = peer,
			.channel = channel,
			.ready = true,
			.message_max = set->piece_size,
			.send_min = set->repeated ? SIZE_MAX : 0,
			.shares_room = true,
		},
		.network = network,
		.number = number,
		.rank = rank,
		.messages = network->messages + (size_t)number * set->slots,
	};
	for (int i = 0; i < set->slots; i++)
		end->messages[i].bytes =
			network->bytes + ((size_t)number * set->slots + i) * set->piece_size;
	network->links[rd_network_link_index(network, rank, peer, channel)] = &end->link;
}

static void init_ends(struct rd_network *network, const char *used)
{
	const struct rd_simulation *set = network->set;

	for (int pair = 0; pair < set->size * set->size; pair++)
		for (int channel = 0; used[pair] && channel < set->channels; channel++)
			init_end(network, pair / set->size, pair % set->size, channel);
	for (int i = 0; i < network->end_count; i++) {
		struct rd_link_end *end = &network->ends[i];

		end->other = end_of(network->links[rd_network_link_index(
			network, end->link.peer, end->rank, end->link.channel)]);
	}
}

int rd_network_connect(struct rd_network *network, const struct rd_plan *const *plans)
{
	const struct rd_simulation *set = network->set;
	size_t pairs = (size_t)set->size * set->size, ends = 0;
	char *used = calloc(pairs, 1);

	if (!used)
		return rd_fail(RONDO_MEMORY, "no memory for %d ranks", set->size);
	mark_pairs(plans, network->set->size, used);
	for (size_t i = 0; i < pairs; i++)
		ends += used[i] * set->channels;
	/* One more: an allocation of nothing may give NULL. */
	network->links = calloc(pairs * set->channels, sizeof(*network->links));
	network->ends = calloc(ends + 1, sizeof(*network->ends));
	network->messages = calloc(ends * set->slots + 1, sizeof(*network->messages));
	network->bytes = calloc(ends * set->slots + 1, set->piece_size);
	if (network->links && network->ends && network->messages && network->bytes)
		init_ends(network, used);
	else
		network->error = rd_fail(RONDO_MEMORY, "no memory for %zu links", ends);
	free(used);
	return network->error;
}

void rd_network_finish(struct rd_network *network)
{
	free(network->links);
	free(network->ends);
	free(network->messages);
	free(network->bytes);
	rd_event_queue_finish(&network->events);
}
