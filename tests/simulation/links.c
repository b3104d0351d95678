#include "links.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "world.h"

static struct link_end *end_of(struct rd_link *link)
{
	return (struct link_end *)link;
}

static struct link_end *end_at(struct world *world, int rank, int peer, int channel)
{
	return &world->links.ends[(rank * 8 + peer) * SIM_CHANNELS + channel];
}

static struct sim_message *message_at(struct link_end *end, uint64_t number)
{
	return &end->messages[number % (uint64_t)end->world->slots];
}

static void fail(struct link_end *end, const char *why)
{
	if (end->link.error)
		return;
	end->link.error = RONDO_BROKEN;
	snprintf(end->link.reason, sizeof(end->link.reason), "%s", why);
}

static void add_event(struct link_end *end, enum link_event kind, uint64_t at_ns)
{
	world_event(end->world, EVENT_LINK, end->number * 4 + (int)kind, at_ns);
}

static bool all_read(const struct link_end *end)
{
	return end->other->arrived == end->other->released;
}

static bool has_room(struct link_end *end)
{
	if (end->gone)
		fail(end, end->why);
	return !end->link.error && end->sent - end->returned < (uint64_t)end->world->slots;
}

/* ---- The contract's functions -------------------------------------------------------------- */

static void ship(struct link_end *end, const struct rd_tag *tag, size_t size)
{
	struct world *world = end->world;
	struct sim_message *message = message_at(end, end->sent++);
	int *flips = &world->flips[end->rank][end->link.peer];
	uint64_t at_ns = world->now_ns + world->latency_ns + world_delay(world, world->jitter_ns);

	message->tag = *tag;
	message->size = size;
	message->landed = NULL;
	message->flipped = *flips > 0 && size > 0;
	*flips -= message->flipped;
	if (at_ns > end->last_ns)
		end->last_ns = at_ns;
	add_event(end, LINK_ARRIVAL, end->last_ns);
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

static bool link_recv(struct rd_link *link, void *into, size_t size, struct rd_message *received)
{
	struct link_end *end = end_of(link);
	struct sim_message *message = message_at(end->other, end->other->released);

	if (link->error)
		return false;
	if (all_read(end)) {
		/* From here on the memory is the link's. */
		if (end->gone) {
			fail(end, end->why);
		} else if (end->world->zero_copy && into && end->into != into) {
			end->into = into;
			end->into_size = size;
			memset(into, SIM_NOISE, size);
		}
		return false;
	}
	if (!message->landed && end->world->zero_copy && into && message->size == size) {
		memcpy(into, message->bytes, size);
		message->landed = into;
	}
	received->data = message->landed ? message->landed : message->bytes;
	received->size = message->size;
	received->tag = &message->tag;
	return true;
}

static void link_release(struct rd_link *link)
{
	struct link_end *end = end_of(link);
	struct sim_message *message = message_at(end->other, end->other->released++);

	memset(message->bytes, SIM_NOISE, message->size);
	end->into = NULL;
	add_event(end->other, LINK_ROOM, end->world->now_ns + end->world->latency_ns);
	if (end->gone && all_read(end))
		fail(end, end->why);
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

/* A bit flips on the way. Returns whether the message's checksum shows it. */
static bool flip(struct world *world, void *bytes, size_t size)
{
	uint64_t sum = rd_hash(RD_HASH_INIT, bytes, size);

	((unsigned char *)bytes)[draw(&world->run, size)] ^=
		(unsigned char)(1u << draw(&world->run, 8));
	return rd_hash(RD_HASH_INIT, bytes, size) != sum;
}

static void arrive(struct link_end *end)
{
	struct link_end *other = end->other;
	struct sim_message *message = message_at(end, end->arrived);
	bool awaited = end->arrived == end->released && other->into &&
		       other->into_size == message->size && !other->closed;
	bool broken = false;

	if (end->severed)
		return;
	if (message->from && message->size)
		memcpy(message->bytes, message->from, message->size);
	if (message->flipped)
		broken = flip(end->world, message->bytes, message->size);
	if (awaited && message->size)
		memcpy(other->into, message->bytes, message->size);
	if (awaited)
		message->landed = other->into;
	if (message->from)
		add_event(end, LINK_SENT, end->world->now_ns + end->world->latency_ns);
	if (broken)
		fail(other, "a message came with a wrong checksum");
	end->arrived++;
}

static void take_close(struct link_end *end)
{
	end->gone = true;
	end->why = "closed its connection";
	end->link.sent = end->link.posted;
	if (all_read(end))
		fail(end, end->why);
}

void links_take_event(struct world *world, int subject)
{
	struct link_end *end = &world->links.ends[subject / 4];
	enum link_event kind = (enum link_event)(subject % 4);
	uint64_t until = world_cut(world, end->rank, end->link.peer);

	if (until == NEVER)
		return;
	if (until) {
		add_event(end, kind, until);
		return;
	}
	if (kind == LINK_ARRIVAL) {
		/* Neither the memory of a rank that has ended is read, nor any for one that has. */
		if (!(end->closed || end->gone) || !message_at(end, end->arrived)->from)
			arrive(end);
		world_touch(world, end->link.peer);
		return;
	}
	if (end->closed)
		return;
	if (kind == LINK_CLOSE)
		take_close(end);
	else if (kind == LINK_ROOM)
		end->returned++;
	else if (end->link.sent < end->link.posted)
		end->link.sent++;
	world_touch(world, end->rank);
}

/* ---- Life ---------------------------------------------------------------------------------- */

static void init_end(struct world *world, int rank, int peer, int channel)
{
	struct link_end *end = end_at(world, rank, peer, channel);

	end->link = (struct rd_link){
		.ops = world->zero_copy ? &zero_copying : &copying,
		.peer = peer,
		.channel = channel,
		.ready = true,
		.message_max = world->piece,
		.shares_room = true,
	};
	end->world = world;
	end->number = (int)(end - world->links.ends);
	end->rank = rank;
	end->other = end_at(world, peer, rank, channel);
	end->closed = end->gone = end->severed = false;
	end->sent = end->arrived = end->released = end->returned = end->last_ns = 0;
	end->into = NULL;
	world->links.of[rank][peer * world->channels + channel] = &end->link;
}

void links_open(struct world *world)
{
	memset(world->links.of, 0, sizeof(world->links.of));
	for (int rank = 0; rank < world->size; rank++)
		for (int peer = 0; peer < world->size; peer++)
			for (int channel = 0; channel < world->channels && peer != rank; channel++)
				init_end(world, rank, peer, channel);
}

void links_close(struct world *world, int rank)
{
	for (int peer = 0; peer < world->size; peer++) {
		for (int channel = 0; channel < world->channels && peer != rank; channel++) {
			struct link_end *end = end_at(world, rank, peer, channel);
			uint64_t at_ns = world->now_ns + world->latency_ns;

			if (end->closed)
				continue;
			end->closed = true;
			add_event(end->other, LINK_CLOSE,
				at_ns > end->last_ns ? at_ns : end->last_ns);
		}
	}
}

void links_sever(struct world *world, int a, int b)
{
	for (int channel = 0; channel < world->channels; channel++) {
		struct link_end *ends[] = { end_at(world, a, b, channel),
			end_at(world, b, a, channel) };

		for (int i = 0; i < 2; i++) {
			ends[i]->gone = ends[i]->severed = true;
			ends[i]->why = "was reset by the network";
			ends[i]->link.sent = ends[i]->link.posted;
			fail(ends[i], ends[i]->why);
		}
	}
	world_touch(world, a);
	world_touch(world, b);
}
