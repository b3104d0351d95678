/*
 * Each link is tried: a greeting must come through it in both directions, which is more than a
 * transport's promise. If none comes, this rank reports a link failure to the coordinator, which
 * sends it to both ranks of the pair. Both open their links again over the next transport; a rank
 * that was ready is not ready any more (rendezvous.h). Both sides therefore try the same transports
 * in the same order, and each failure uses up one of them, so the search ends.
 *
 * Silence shows a broken transport only where both sides had time to use it: on an oversubscribed
 * host a peer may not have run yet. So silence is measured in rounds. A round ends when all ranks
 * have checked their links since the one before (rendezvous.h).
 */
#include "comm/connect.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/registration.h"
#include "comm/route.h"

/* A silent pair takes another transport, if there is one, after SILENT_ROUNDS rounds. Each takes
   its part of SILENCE_MS, or longer. */
#define SILENCE_MS 5000
#define SILENT_ROUNDS 8

/* An executor cuts at multiples of this. */
#define PIECE_LEAST 64

#define GREETING_MAGIC 0x74656572672d6472u /* "rd-greet" */

/* The first message on each link, in both directions. */
struct greeting {
	uint64_t magic, comm_id;
	int32_t from, to, channel, zero;
};

/* This rank and a peer. */
struct peer_state {
	struct rd_endpoint *endpoint; /* of its links */
	unsigned barred; /* endpoints that failed it, as in rd_route_cheapest() */
	bool failed; /* reported: the coordinator sends the fallback */
	bool open;
	int since; /* rounds that had ended when its links were opened */
	unsigned greeted, received; /* bits, by channel: greetings sent, and received */
};

struct connecting {
	struct rondo_comm *comm;
	const struct rd_member *members;
	struct peer_state *pairs; /* [size] */
	int fallbacks; /* taken so far */
	int rounds; /* ended so far, by the coordinator's latest message */
	int64_t round_ms; /* when that message came */
	bool checked; /* all links since then, and reported that */
	int64_t deadline_ms;
	int culprit; /* the peer that this rank waits for, or that failed */
};

static struct rd_link **link_at(const struct connecting *all, int peer, int channel)
{
	return &all->comm->links[peer * all->comm->channels + channel];
}

static int index_of(const struct rondo_comm *comm, const char *transport)
{
	for (int i = 0; i < comm->endpoint_count; i++)
		if (strcmp(comm->endpoints[i]->transport->name, transport) == 0)
			return i;
	return -1;
}

/* The endpoints that the pair may not use once its present transport has failed too. */
static unsigned barred_next(const struct connecting *all, const struct peer_state *pair)
{
	return pair->barred | 1u << index_of(all->comm, pair->endpoint->transport->name);
}

static bool has_another(const struct connecting *all, int peer)
{
	unsigned barred = barred_next(all, &all->pairs[peer]);

	return rd_route_cheapest(all->comm, all->members, peer, barred) != NULL;
}

/* ---- Link failures ------------------------------------------------------------------------- */

/* "; nor over shm: ..." for each transport that has failed this pair before. */
static void add_earlier(const struct connecting *all, int peer, char *text, size_t size)
{
	struct rd_link_failure link_failure;
	size_t at = strlen(text);

	for (int i = 0;
		i < all->fallbacks && rd_control_fallback(all->comm->control, i, &link_failure);
		i++)
		if ((link_failure.low == peer || link_failure.high == peer) && at < size)
			at += (size_t)snprintf(text + at, size - at, "; nor over %s: %s",
				link_failure.transport, link_failure.reason);
}

/* There is no other transport: this is the end of the comm. */
static int give_up(struct connecting *all, int peer, int error, const char *why)
{
	const struct rondo_comm *comm = all->comm;
	const struct peer_state *pair = &all->pairs[peer];
	char earlier[RD_REASON_SIZE] = "";

	all->culprit = peer;
	add_earlier(all, peer, earlier, sizeof(earlier));
	return rd_fail(pair->barred ? RONDO_UNREACHABLE : error,
		"rank %d (host %s) cannot connect to rank %d (host %s) over %s: %s%s", comm->rank,
		all->members[comm->rank].place.host_name, peer, all->members[peer].place.host_name,
		pair->endpoint->transport->name, why, earlier);
}

/* The pair's present transport has failed. Returns 0 if another is left. */
static int fail_pair(struct connecting *all, int peer, int error, const char *why)
{
	struct peer_state *pair = &all->pairs[peer];
	int rank = all->comm->rank;
	struct rd_link_failure link_failure = {
		.low = peer < rank ? peer : rank,
		.high = peer < rank ? rank : peer,
		.by = rank,
	};

	if (!has_another(all, peer))
		return give_up(all, peer, error, why);
	pair->failed = true;
	snprintf(link_failure.transport, sizeof(link_failure.transport), "%s",
		pair->endpoint->transport->name);
	snprintf(link_failure.reason, sizeof(link_failure.reason), "%s", why);
	return rd_control_link_failed(all->comm->control, &link_failure);
}

/* ---- Opening ------------------------------------------------------------------------------- */

static int fail_unreachable(const struct connecting *all, int peer)
{
	const struct rondo_comm *comm = all->comm;
	char earlier[RD_REASON_SIZE] = "";

	add_earlier(all, peer, earlier, sizeof(earlier));
	return rd_fail(RONDO_UNREACHABLE,
		"no transport reaches from rank %d (host %s) to rank %d (host %s): RONDO_TRANSPORT "
		"is \"%s\" on rank %d%s",
		comm->rank, all->members[comm->rank].place.host_name, peer,
		all->members[peer].place.host_name, comm->settings.transport, comm->rank, earlier);
}

/* Opens the links to a peer, over the cheapest transport that has not failed the pair. */
static int open_pair(struct connecting *all, int peer)
{
	struct rondo_comm *comm = all->comm;
	struct peer_state *pair = &all->pairs[peer];
	int err = 0;

	all->culprit = peer;
	*pair = (struct peer_state){ .barred = pair->barred, .since = all->rounds };
	pair->endpoint = rd_route_cheapest(comm, all->members, peer, pair->barred);
	if (!pair->endpoint)
		return fail_unreachable(all, peer);

	const struct rd_transport *transport = pair->endpoint->transport;
	const struct rd_card *card = rd_route_card(comm, peer, transport);

	for (int channel = 0; channel < comm->channels; channel++)
		*link_at(all, peer, channel) = NULL;
	for (int channel = 0; channel < comm->channels && !err; channel++)
		err = transport->open(pair->endpoint, peer, channel, card->bytes, card->size,
			link_at(all, peer, channel));
	if (!err)
		return 0;

	char why[RD_REASON_SIZE];

	snprintf(why, sizeof(why), "%s", rondo_last_error());
	return fail_pair(all, peer, err, why);
}

/* ---- Trying -------------------------------------------------------------------------------- */

static struct greeting greeting_of(const struct connecting *all, int from, int to, int channel)
{
	return (struct greeting){
		.magic = GREETING_MAGIC,
		.comm_id = all->comm->local.comm_id,
		.from = from,
		.to = to,
		.channel = channel,
	};
}

static bool greet(const struct connecting *all, int peer, int channel)
{
	struct rd_link *link = *link_at(all, peer, channel);
	struct greeting greeting = greeting_of(all, all->comm->rank, peer, channel);
	struct rd_tag tag = { { 0 } };
	void *room = link->ops->reserve(link, sizeof(greeting));

	if (!room)
		return false;
	memcpy(room, &greeting, sizeof(greeting));
	link->ops->commit(link, &tag, sizeof(greeting));
	return true;
}

/* 1: the peer's greeting has come; 0: not yet; -1: another message has. */
static int receive_greeting(const struct connecting *all, int peer, int channel)
{
	struct rd_link *link = *link_at(all, peer, channel);
	struct greeting greeting = greeting_of(all, peer, all->comm->rank, channel);
	struct rd_message message;
	bool right;

	if (!link->ops->recv(link, NULL, 0, &message))
		return 0;
	right = message.size == sizeof(greeting) &&
		memcmp(message.data, &greeting, sizeof(greeting)) == 0;
	link->ops->release(link);
	return right ? 1 : -1;
}

/* 1: something moved; 0: nothing did; negative: the end of the comm. */
static int try_link(struct connecting *all, int peer, int channel)
{
	struct peer_state *pair = &all->pairs[peer];
	const struct rd_link *link = *link_at(all, peer, channel);
	unsigned bit = 1u << channel;
	int received = 0, moved = 0;

	if (link->ready && !link->error && !(pair->greeted & bit) && greet(all, peer, channel)) {
		pair->greeted |= bit;
		moved = 1;
	}
	if (link->ready && !link->error && !(pair->received & bit))
		received = receive_greeting(all, peer, channel);
	if (received > 0) {
		pair->received |= bit;
		moved = 1;
	}
	if (link->error)
		return fail_pair(all, peer, link->error, link->reason);
	if (received < 0)
		return fail_pair(all, peer, RONDO_BROKEN, "the first message came out wrong");
	return moved;
}

static bool is_through(const struct connecting *all, int peer)
{
	const struct peer_state *pair = &all->pairs[peer];
	unsigned every = (1u << all->comm->channels) - 1;

	if (pair->greeted != every || pair->received != every)
		return false;
	for (int channel = 0; channel < all->comm->channels; channel++)
		if ((*link_at(all, peer, channel))->unsent)
			return false;
	return true;
}

static int64_t silence_ms(const struct connecting *all)
{
	int most = all->comm->settings.init_timeout_ms / 4;

	return most < SILENCE_MS ? most : SILENCE_MS;
}

static int try_pair(struct connecting *all, int peer)
{
	struct peer_state *pair = &all->pairs[peer];
	char why[RD_LINK_FAILURE_REASON];
	int moved = 0;

	for (int channel = 0; channel < all->comm->channels && !pair->failed; channel++) {
		int some = try_link(all, peer, channel);

		if (some < 0)
			return some;
		moved |= some;
	}
	if (pair->failed)
		return moved;
	pair->open = is_through(all, peer);
	if (pair->open || all->rounds - pair->since < SILENT_ROUNDS || !has_another(all, peer))
		return moved;
	snprintf(why, sizeof(why), "nothing came through within %lld ms",
		(long long)silence_ms(all));
	return fail_pair(all, peer, RONDO_TIMEOUT, why);
}

/* 1: something moved; 0: nothing did; negative: the end of the comm. *waits: a pair is not open. */
static int try_all(struct connecting *all, bool *waits)
{
	int moved = 0;

	*waits = false;
	for (int peer = 0; peer < all->comm->size; peer++) {
		struct peer_state *pair = &all->pairs[peer];

		if (peer == all->comm->rank || pair->open)
			continue;

		int some = pair->failed ? 0 : try_pair(all, peer);

		if (some < 0)
			return some;
		moved |= some;
		if (!pair->open) {
			*waits = true;
			all->culprit = peer;
		}
	}
	return moved;
}

/* ---- Fallbacks ----------------------------------------------------------------------------- */

/* The lower rank logs for both. */
static void log_fallback(const struct connecting *all, const struct rd_link_failure *link_failure)
{
	const struct peer_state *pair = &all->pairs[link_failure->high];

	if (link_failure->low == all->comm->rank && pair->endpoint)
		rd_log(RD_WARN, RD_ROUTE,
			"rank %d and rank %d do not reach each other over %s (rank %d says: %s), "
			"and go on over %s",
			link_failure->low, link_failure->high, link_failure->transport,
			link_failure->by, link_failure->reason, pair->endpoint->transport->name);
}

static int take_fallbacks(struct connecting *all)
{
	struct rd_link_failure link_failure;
	int err = 0;

	while (!err && rd_control_fallback(all->comm->control, all->fallbacks, &link_failure)) {
		int peer =
			link_failure.low == all->comm->rank ? link_failure.high : link_failure.low;
		int index = index_of(all->comm, link_failure.transport);

		all->fallbacks++;
		if (index < 0)
			continue;
		all->pairs[peer].barred |= 1u << index;
		if (all->pairs[peer].endpoint == all->comm->endpoints[index])
			err = open_pair(all, peer);
		log_fallback(all, &link_failure);
	}
	return err;
}

/* ---- Rounds -------------------------------------------------------------------------------- */

/* Call before the fallbacks are taken and the links checked: both then belong to this round. */
static void begin_round(struct connecting *all)
{
	int rounds = rd_control_rounds(all->comm->control);

	if (rounds == all->rounds)
		return;
	all->rounds = rounds;
	all->round_ms = rd_clock_ms();
	all->checked = false;
}

/* Call when all links have been checked. */
static void report_check(struct connecting *all)
{
	if (all->checked || rd_clock_ms() < all->round_ms + silence_ms(all) / SILENT_ROUNDS)
		return;
	all->checked = true;
	rd_control_tried(all->comm->control);
}

/* ---- The whole ----------------------------------------------------------------------------- */

/* Sleeps until a link may have moved, and no longer than to the next check. */
static int sleep_until_check(struct connecting *all, int64_t left_ms)
{
	int64_t most_ms = silence_ms(all) / SILENT_ROUNDS + 1;
	bool waits;
	int moved;

	rd_comm_arm(all->comm);
	moved = rd_comm_advance(all->comm) ? 1 : try_all(all, &waits);
	if (moved == 0 && waits)
		rd_comm_sleep(all->comm, (int)(left_ms < most_ms ? left_ms : most_ms));
	rd_comm_disarm(all->comm);
	return moved < 0 ? moved : 0;
}

static int wait_until_open(struct connecting *all)
{
	bool yielded = false;

	for (;;) {
		begin_round(all);

		bool waits, advanced = rd_comm_advance(all->comm);
		int err = take_fallbacks(all);
		int moved = err ? err : try_all(all, &waits);

		if (moved < 0)
			return moved;
		if (!waits)
			return 0;
		report_check(all);
		if (atomic_load(&all->comm->failed))
			return rd_comm_failure(all->comm);

		int64_t left_ms = all->deadline_ms - rd_clock_ms();

		if (left_ms <= 0)
			return rd_fail(RONDO_TIMEOUT,
				"rank %d waited %d ms for its link to rank %d", all->comm->rank,
				all->comm->settings.init_timeout_ms, all->culprit);
		if (advanced || moved)
			continue;
		/* Peers that share this core do more at once then, and fewer sleeps end early. */
		if (all->comm->oversubscribed && !yielded) {
			yielded = true;
			sched_yield();
			continue;
		}
		yielded = false;
		err = sleep_until_check(all, left_ms);
		if (err)
			return err;
	}
}

/* The number of channels to a peer, from the first on, of which each has a rail to itself. */
static uint32_t count_rails(struct rondo_comm *comm, struct rd_endpoint *endpoint, int peer)
{
	const struct rd_transport *transport = endpoint->transport;
	const struct rd_card *card = rd_route_card(comm, peer, transport);
	int rails = transport->rails ? transport->rails(endpoint, card->bytes, card->size) : 1;

	return (uint32_t)(rails < comm->channels ? rails : comm->channels);
}

/* Every endpoint counts, used or not: each pair may come to use it. */
static int find_piece(const struct rondo_comm *comm, struct rd_link_limits *limits)
{
	for (int i = 0; i < comm->endpoint_count; i++) {
		const struct rd_endpoint *endpoint = comm->endpoints[i];

		if (endpoint->message_max < limits->piece_size)
			limits->piece_size = endpoint->message_max;
		if (endpoint->message_max < PIECE_LEAST)
			return rd_fail(RONDO_UNSUPPORTED,
				"rank %d: transport %s carries messages of %zu bytes, and must "
				"carry at least %d",
				comm->rank, endpoint->transport->name, endpoint->message_max,
				PIECE_LEAST);
	}
	return 0;
}

/* The least limits of this rank's links, over the transports that cards promise. */
static int find_limits(const struct connecting *all, struct rd_link_limits *limits)
{
	struct rondo_comm *comm = all->comm;
	const struct rd_place *here = &all->members[comm->rank].place;

	*limits = (struct rd_link_limits){ comm->settings.piece_size, true, RD_NO_RAILS,
		RD_NO_RAILS };
	for (int peer = 0; peer < comm->size; peer++) {
		bool near = rd_place_same_host(here, &all->members[peer].place);
		uint32_t *least = near ? &limits->near_rails : &limits->far_rails, rails;
		struct rd_endpoint *endpoint;

		if (peer == comm->rank)
			continue;
		endpoint = rd_route_cheapest(comm, all->members, peer, 0);
		if (!endpoint)
			return fail_unreachable(all, peer);
		limits->maps &= endpoint->transport->map != NULL;
		rails = count_rails(comm, endpoint, peer);
		if (rails < *least)
			*least = rails;
	}
	return find_piece(comm, limits);
}

static void set_rails(struct rondo_comm *comm, enum rd_link_class class, uint32_t rails)
{
	comm->rails[class] = rails == RD_NO_RAILS ? 1 : rails;
}

static int connect_all(struct connecting *all)
{
	struct rd_link_limits limits;
	int err = 0;

	for (int peer = 0; peer < all->comm->size && !err; peer++)
		if (peer != all->comm->rank)
			err = open_pair(all, peer);
	for (int another = 1; !err && another;) {
		err = wait_until_open(all);
		if (!err)
			err = find_limits(all, &limits);
		if (err)
			return err;
		another = rd_control_ready(all->comm->control, all->fallbacks, &limits);
		if (another < 0)
			err = another;
	}
	if (err)
		return err;
	all->comm->piece_size = (size_t)limits.piece_size;
	all->comm->maps = limits.maps;
	set_rails(all->comm, RD_NEAR, limits.near_rails);
	set_rails(all->comm, RD_FAR, limits.far_rails);
	rd_registration_join(all->comm);
	return 0;
}

int rd_route_connect(struct rondo_comm *comm, const struct rd_member *members)
{
	struct connecting all = {
		.comm = comm,
		.members = members,
		.pairs = calloc((size_t)comm->size, sizeof(*all.pairs)),
		.deadline_ms = rd_clock_ms() + comm->settings.init_timeout_ms,
		.round_ms = rd_clock_ms(),
		.culprit = -1,
	};
	int err;

	if (!all.pairs)
		return rd_fail(RONDO_MEMORY, "no memory for links to %d ranks", comm->size);
	err = connect_all(&all);
	free(all.pairs);
	return err ? rd_comm_fail(comm, err, all.culprit) : 0;
}
