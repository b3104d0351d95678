/*
 * Each link is tried: a greeting must come through it in both directions, and then a confirmation,
 * which shows that the peer has received ours. That is more than a transport's promise. A rank that
 * has both uses the link, and it stays: its failure ends the comm.
 *
 * If a transport refuses a link before that, this rank reports a link failure to the coordinator,
 * which sends it to both ranks of the pair. Both open their links again over the next transport.
 * Both sides therefore try the same transports in the same order, and each failure uses up one of
 * them, so the search ends. Silence moves no pair: a peer that is stopped is silent, too.
 */
#include "comm/opening.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "bootstrap/rendezvous.h"
#include "comm/comm_log.h"
#include "comm/hold.h"
#include "comm/mailbox.h"
#include "comm/registration.h"
#include "comm/route.h"

/* Pairs that this rank opens at a time, for its own calls. */
#define OPENINGS_MOST 64
/* For which this rank waits for the rest of a link whose peer has left. */
#define LEFT_MS RD_QUERY_MS

#define GREETING_MAGIC 0x74656572672d6472u /* "rd-greet" */

/* The first two messages on each link, in both directions. */
struct greeting {
	uint64_t magic, comm_id;
	int32_t from, to, channel, confirms;
};

/* A pair whose links are being opened. Bits are by channel. */
struct rd_opening {
	struct rd_opening *next;
	int peer;
	bool failed; /* reported: the coordinator sends the fallback */
	int64_t left_ms; /* when this rank learnt that the peer has left; 0: it has not */
	unsigned greeted, received; /* greetings */
	unsigned confirmed, confirmation; /* confirmations: sent, received */
	struct rd_link *links[RD_CHANNELS_MAX];
};

static const struct rd_member *members_of(const struct rondo_comm *comm)
{
	return rd_control_members(comm->control);
}

static int index_of(const struct rondo_comm *comm, const char *transport)
{
	for (int i = 0; i < comm->endpoint_count; i++)
		if (strcmp(comm->endpoints[i]->transport->name, transport) == 0)
			return i;
	return -1;
}

static struct rd_endpoint *endpoint_of(const struct rondo_comm *comm, int peer)
{
	return comm->endpoints[comm->connecting.pairs[peer].endpoint];
}

static unsigned every_channel(const struct rondo_comm *comm)
{
	return (1u << comm->channels) - 1;
}

/* ---- Link failures ------------------------------------------------------------------------- */

/* "; nor over shm: ..." for each transport that has failed this pair before. */
static void add_earlier(const struct rondo_comm *comm, int peer, char *text, size_t size)
{
	struct rd_link_failure link_failure;
	size_t at = strlen(text);

	for (int i = 0; i < comm->connecting.fallbacks &&
			rd_control_fallback(comm->control, i, &link_failure);
		i++)
		if ((link_failure.low == peer || link_failure.high == peer) &&
			link_failure.transport[0] && !link_failure.tagged && at < size)
			at += (size_t)snprintf(text + at, size - at, "; nor over %s: %s",
				link_failure.transport, link_failure.reason);
}

/* The end of the comm. Once it is made, the peer may have died: the coordinator finds out. */
static int end_code(const struct rondo_comm *comm, int peer, int error)
{
	if (comm->connecting.pairs[peer].barred)
		error = RONDO_UNREACHABLE;
	return comm->connecting.made && error == RONDO_UNREACHABLE ? RONDO_BROKEN : error;
}

/* There is no other transport. */
static int give_up(struct rondo_comm *comm, int peer, int error, const char *why)
{
	const struct rd_member *members = members_of(comm);
	char earlier[RD_REASON_SIZE] = "";

	add_earlier(comm, peer, earlier, sizeof(earlier));
	return rd_fail(end_code(comm, peer, error),
		"rank %d (host %s) cannot connect to rank %d (host %s) over %s: %s%s", comm->rank,
		members[comm->rank].place.host_name, peer, members[peer].place.host_name,
		endpoint_of(comm, peer)->transport->name, why, earlier);
}

/* The pair's present transport has failed. Returns 0 if another is left. */
static int fail_pair(
	struct rondo_comm *comm, struct rd_opening *opening, int error, const char *why)
{
	const struct rd_pair *pair = &comm->connecting.pairs[opening->peer];
	unsigned barred = pair->barred | 1u << pair->endpoint;
	int rank = comm->rank, peer = opening->peer;
	struct rd_link_failure link_failure = {
		.low = peer < rank ? peer : rank,
		.high = peer < rank ? rank : peer,
		.by = rank,
	};

	comm->connecting.culprit = peer;
	if (opening->left_ms || !rd_route_cheapest(comm, members_of(comm), peer, barred))
		return give_up(comm, peer, error, why);
	opening->failed = true;
	snprintf(link_failure.transport, sizeof(link_failure.transport), "%s",
		endpoint_of(comm, peer)->transport->name);
	snprintf(link_failure.reason, sizeof(link_failure.reason), "%s", why);
	return rd_control_link_failed(comm->control, &link_failure);
}

int rd_open_unreachable(struct rondo_comm *comm, int peer)
{
	const struct rd_member *members = members_of(comm);
	char earlier[RD_REASON_SIZE] = "";

	comm->connecting.culprit = peer;
	add_earlier(comm, peer, earlier, sizeof(earlier));
	return rd_fail(end_code(comm, peer, RONDO_UNREACHABLE),
		"no transport reaches from rank %d (host %s) to rank %d (host %s): RONDO_TRANSPORT "
		"is \"%s\" on rank %d%s",
		comm->rank, members[comm->rank].place.host_name, peer,
		members[peer].place.host_name, comm->settings.transport, comm->rank, earlier);
}

/* ---- Opening ------------------------------------------------------------------------------- */

/* Opens this end over the cheapest transport that has not failed the pair. */
static int open_links(struct rondo_comm *comm, struct rd_opening *opening)
{
	struct rd_pair *pair = &comm->connecting.pairs[opening->peer];
	struct rd_endpoint *endpoint =
		rd_route_cheapest(comm, members_of(comm), opening->peer, pair->barred);
	char why[RD_REASON_SIZE];
	struct rd_card card;
	int err = 0;

	*opening = (struct rd_opening){
		.next = opening->next, .peer = opening->peer, .left_ms = opening->left_ms
	};
	if (!endpoint)
		return rd_open_unreachable(comm, opening->peer);
	pair->endpoint = index_of(comm, endpoint->transport->name);
	rd_route_card(comm, opening->peer, endpoint->transport, &card);
	if (endpoint->transport->watches_links)
		err = rd_comm_make_epoll(comm);
	for (int channel = 0; channel < comm->channels && !err; channel++)
		err = endpoint->transport->open(endpoint, opening->peer, channel, card.bytes,
			card.size, &opening->links[channel]);
	if (!err)
		return 0;
	snprintf(why, sizeof(why), "%s", rondo_last_error());
	return fail_pair(comm, opening, err, why);
}

int rd_open_begin(struct rondo_comm *comm, int peer)
{
	struct rd_connecting *connecting = &comm->connecting;
	struct rd_opening *opening = calloc(1, sizeof(*opening));

	if (!opening)
		return rd_fail(RONDO_MEMORY, "no memory for a link to rank %d", peer);
	opening->peer = peer;
	opening->next = connecting->openings;
	connecting->openings = opening;
	connecting->opening_count++;
	connecting->pairs[peer].opening = true;
	return open_links(comm, opening);
}

static struct rd_opening *find(const struct rondo_comm *comm, int peer)
{
	struct rd_opening *at = comm->connecting.openings;

	while (at && at->peer != peer)
		at = at->next;
	return at;
}

/* ---- Trying -------------------------------------------------------------------------------- */

static struct greeting greeting_of(
	const struct rondo_comm *comm, int from, int to, int channel, bool confirms)
{
	return (struct greeting){
		.magic = GREETING_MAGIC,
		.comm_id = comm->local.comm_id,
		.from = from,
		.to = to,
		.channel = channel,
		.confirms = confirms,
	};
}

static bool greet(const struct rondo_comm *comm, struct rd_link *link, bool confirms)
{
	struct greeting greeting =
		greeting_of(comm, comm->rank, link->peer, link->channel, confirms);
	struct rd_tag tag = { { 0 } };
	void *room = link->ops->reserve(link, sizeof(greeting));

	if (!room)
		return false;
	memcpy(room, &greeting, sizeof(greeting));
	link->ops->commit(link, &tag, sizeof(greeting));
	return true;
}

/* 1: the peer's greeting has come; 0: not yet; -1: another message has. */
static int receive_greeting(const struct rondo_comm *comm, struct rd_link *link, bool confirms)
{
	struct greeting greeting =
		greeting_of(comm, link->peer, comm->rank, link->channel, confirms);
	struct rd_message message;
	bool right;

	if (!link->ops->recv(link, NULL, 0, &message))
		return 0;
	right = message.size == sizeof(greeting) &&
		memcmp(message.data, &greeting, sizeof(greeting)) == 0;
	link->ops->release(link);
	return right ? 1 : -1;
}

/* Sends what is due, once. Returns as receive_greeting(). */
static int exchange_greetings(
	const struct rondo_comm *comm, struct rd_opening *opening, struct rd_link *link)
{
	unsigned bit = 1u << link->channel;
	int moved = 0, received = 0;

	if (!(opening->greeted & bit) && greet(comm, link, false)) {
		opening->greeted |= bit;
		moved = 1;
	}
	if (!(opening->received & bit)) {
		received = receive_greeting(comm, link, false);
		opening->received |= received > 0 ? bit : 0;
	}
	if (opening->greeted & opening->received & ~opening->confirmed & bit &&
		greet(comm, link, true)) {
		opening->confirmed |= bit;
		moved = 1;
	}
	/* A call receives the rest. */
	if (received >= 0 && opening->received & ~opening->confirmation & bit) {
		received = receive_greeting(comm, link, true);
		opening->confirmation |= received > 0 ? bit : 0;
	}
	return received < 0 ? -1 : moved | received;
}

/* 1: something moved; 0: nothing did; negative: the end of the comm. */
static int try_link(struct rondo_comm *comm, struct rd_opening *opening, int channel)
{
	struct rd_link *link = opening->links[channel];
	int moved = 0;

	/* A failure from then on is for the calls, as that of any link: the peer may have made its
	   call and left. */
	if (opening->confirmed & opening->confirmation & 1u << channel)
		return 0;
	if (link->ready && !link->error)
		moved = exchange_greetings(comm, opening, link);
	if (link->error)
		return fail_pair(comm, opening, comm->connecting.made ? RONDO_BROKEN : link->error,
			link->reason);
	if (moved < 0)
		return fail_pair(comm, opening, RONDO_BROKEN, "the first message came out wrong");
	return moved;
}

static bool is_through(const struct rondo_comm *comm, const struct rd_opening *opening)
{
	if ((opening->confirmed & opening->confirmation) != every_channel(comm))
		return false;
	for (int channel = 0; channel < comm->channels; channel++)
		if (opening->links[channel]->unsent)
			return false;
	return true;
}

/* Calls may use the links. */
static void publish(struct rondo_comm *comm, const struct rd_opening *opening)
{
	struct rd_pair *pair = &comm->connecting.pairs[opening->peer];

	memcpy(&comm->links[opening->peer * comm->channels], opening->links,
		(size_t)comm->channels * sizeof(*opening->links));
	pair->open = true;
	pair->opening = false;
	rd_registration_join(comm, pair->endpoint);
	rd_comm_log_links(comm, opening->peer);
}

/* 1: something moved; 0: nothing did; negative: the end of the comm. */
static int try_pair(struct rondo_comm *comm, struct rd_opening **at)
{
	struct rd_opening *opening = *at;
	int moved = 0;

	for (int channel = 0; channel < comm->channels && !opening->failed; channel++) {
		int some = try_link(comm, opening, channel);

		if (some < 0)
			return some;
		moved |= some;
	}
	if (opening->failed || !is_through(comm, opening))
		return moved;
	publish(comm, opening);
	*at = opening->next;
	comm->connecting.opening_count--;
	free(opening);
	return 1;
}

/* ---- News of other ranks -------------------------------------------------------------------- */

static void log_fallback(const struct rondo_comm *comm, const struct rd_link_failure *link_failure)
{
	int peer = link_failure->low == comm->rank ? link_failure->high : link_failure->low;
	const struct rd_endpoint *next = rd_route_cheapest(
		comm, members_of(comm), peer, comm->connecting.pairs[peer].barred);

	if (next)
		rd_comm_log_fallback(comm, link_failure, next->transport);
}

/* The other rank has left. If it had opened its end, it has made the call that needs the link, and
   the rest is on its way. */
static int take_leave(struct rondo_comm *comm, int peer)
{
	struct rd_opening *opening = find(comm, peer);

	if (opening)
		opening->left_ms = rd_clock_ms();
	return 0;
}

static int check_leave(struct rondo_comm *comm, const struct rd_opening *opening)
{
	if (!opening->left_ms || rd_clock_ms() < opening->left_ms + LEFT_MS)
		return 0;
	comm->connecting.culprit = opening->peer;
	return rd_fail(RONDO_BROKEN, "rank %d opens a link to it", comm->rank);
}

static int take_fallback(struct rondo_comm *comm, const struct rd_link_failure *link_failure)
{
	int peer = link_failure->low == comm->rank ? link_failure->high : link_failure->low;
	int index = index_of(comm, link_failure->transport);
	struct rd_pair *pair = &comm->connecting.pairs[peer];

	if (link_failure->transport[0] == '\0')
		return take_leave(comm, peer);
	if (index < 0 || link_failure->tagged)
		return 0;
	pair->barred |= 1u << index;
	if (!pair->open)
		log_fallback(comm, link_failure);
	if (pair->endpoint != index || !(pair->open || pair->opening))
		return 0;
	comm->connecting.culprit = peer;
	if (pair->open)
		return rd_fail(RONDO_BROKEN, "rank %d: the link to rank %d over %s: %s", comm->rank,
			peer, link_failure->transport, link_failure->reason);
	return open_links(comm, find(comm, peer));
}

/* Fallbacks, and ranks that open links to this one. 1: there were some, and the comm may have
   another epoll since, on which nobody may sleep before a last look; 0: none; negative: an error.
 */
static int take_news(struct rondo_comm *comm)
{
	struct rd_connecting *connecting = &comm->connecting;
	int before = connecting->fallbacks + connecting->opened, err = 0, peer;
	struct rd_link_failure link_failure;

	while (!err && rd_control_fallback(comm->control, connecting->fallbacks, &link_failure)) {
		connecting->fallbacks++;
		err = take_fallback(comm, &link_failure);
	}
	while (!err && rd_control_opened(comm->control, connecting->opened, &peer)) {
		connecting->opened++;
		if (peer & RD_OPEN_TAGGED) /* the mailbox's */
			continue;
		if (!connecting->pairs[peer].open && !connecting->pairs[peer].opening)
			err = rd_open_begin(comm, peer);
	}
	return err ? err : connecting->fallbacks + connecting->opened > before;
}

int rd_open_try(struct rondo_comm *comm)
{
	int moved = take_news(comm);

	for (struct rd_opening **at = &comm->connecting.openings; *at && moved >= 0;) {
		struct rd_opening *opening = *at;
		int some = opening->failed ? 0 : try_pair(comm, at);

		if (some == 0)
			some = check_leave(comm, opening);
		moved = some < 0 ? some : moved | some;
		if (*at == opening)
			at = &opening->next;
	}
	return moved;
}

/* ---- During calls --------------------------------------------------------------------------- */

static void report(struct rondo_comm *comm, int error)
{
	comm->connecting.ended = true;
	rd_control_report_soon(comm->control, error, comm->connecting.culprit, rondo_last_error());
}

static bool is_over(const struct rondo_comm *comm)
{
	return comm->connecting.ended || atomic_load(&comm->failed);
}

bool rd_open_step(struct rondo_comm *comm)
{
	int moved;

	if (!comm->control || is_over(comm))
		return false;
	moved = rd_open_try(comm);
	if (moved < 0)
		report(comm, moved);
	return moved > 0;
}

int rd_open_awaited(const struct rondo_comm *comm, const struct rd_peer_set *peers)
{
	for (int i = 0; i < peers->count; i++)
		if (!comm->connecting.pairs[peers->at[i]].open)
			return peers->at[i];
	return -1;
}

/* Opens this end to some of the peers, and has them told. */
static int open_some(struct rondo_comm *comm, const struct rd_peer_set *peers)
{
	int asked[OPENINGS_MOST], count = 0, err = 0;

	for (int i = 0; i < peers->count && !err && count < OPENINGS_MOST &&
			comm->connecting.opening_count < OPENINGS_MOST;
		i++) {
		const struct rd_pair *pair = &comm->connecting.pairs[peers->at[i]];

		if (pair->open || pair->opening)
			continue;
		asked[count++] = peers->at[i];
		err = rd_open_begin(comm, peers->at[i]);
	}
	return err || count == 0 ? err : rd_control_open(comm->control, asked, count);
}

bool rd_open_reach(struct rondo_comm *comm, const struct rd_peer_set *peers)
{
	int err;

	if (rd_open_awaited(comm, peers) < 0)
		return true;
	if (is_over(comm))
		return false;
	/* A peer may have asked before: the news come first. */
	err = take_news(comm);
	if (err >= 0)
		err = open_some(comm, peers);
	if (err)
		report(comm, err);
	return false;
}

/* ---- The control thread --------------------------------------------------------------------- */

/* Leaves the links armed where some are being opened: what comes wakes the control thread. */
static enum rd_links_state serve(struct rondo_comm *comm)
{
	bool moved = true;

	/* Links of a comm that has failed may be halted. */
	while (moved && !is_over(comm)) {
		rd_hold_disarm(comm);
		moved = rd_comm_advance(comm);
		moved |= rd_open_step(comm);
		if (moved || !comm->connecting.openings || is_over(comm))
			continue;
		rd_comm_arm(comm);
		comm->connecting.armed = true;
		moved = rd_comm_advance(comm);
		moved |= rd_open_step(comm);
	}
	return comm->connecting.openings && !is_over(comm) ? RD_LINKS_WAIT : RD_LINKS_IDLE;
}

enum rd_links_state rd_open_serve(void *owner, int *fd)
{
	struct rondo_comm *comm = owner;
	enum rd_links_state tagged = rd_mailbox_serve(comm, fd), state;

	if (!rd_hold_try(comm))
		return tagged == RD_LINKS_WAIT ? tagged : RD_LINKS_BUSY;
	state = serve(comm);
	if (state == RD_LINKS_WAIT || tagged != RD_LINKS_WAIT)
		*fd = rd_comm_control_epoll(comm);
	rd_hold_pass(comm);
	return tagged == RD_LINKS_WAIT ? tagged : state;
}

void rd_open_finish(struct rondo_comm *comm)
{
	while (comm->connecting.openings) {
		struct rd_opening *opening = comm->connecting.openings;

		comm->connecting.openings = opening->next;
		free(opening);
	}
	free(comm->connecting.pairs);
	comm->connecting.pairs = NULL;
}
