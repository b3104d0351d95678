#include "comm/connect.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/hold.h"
#include "comm/opening.h"
#include "comm/route.h"

/* An executor cuts at multiples of this. */
#define PIECE_LEAST 64
/* A transport may wake no sleeper. */
#define SLEEP_MOST_MS 250

/* ---- Waiting -------------------------------------------------------------------------------- */

static int sleep_until_moved(struct rondo_comm *comm, int64_t left_ms)
{
	int moved;

	rd_comm_borrow(comm);
	rd_comm_arm(comm);
	moved = rd_comm_advance(comm) ? 1 : rd_open_try(comm);
	if (moved == 0)
		rd_comm_sleep(comm, (int)(left_ms < SLEEP_MOST_MS ? left_ms : SLEEP_MOST_MS));
	rd_comm_disarm(comm);
	rd_comm_give_back(comm);
	return moved < 0 ? moved : 0;
}

/* opens: opens those that are not being opened, too. */
static int wait_until_open(struct rondo_comm *comm, const struct rd_peer_set *peers, bool opens)
{
	int64_t deadline_ms = rd_clock_ms() + comm->settings.init_timeout_ms;

	for (;;) {
		bool advanced = rd_comm_advance(comm);
		int moved = comm->connecting.ended ? 0 : rd_open_try(comm), err;

		if (moved < 0)
			return moved;
		if (opens ? rd_open_reach(comm, peers) : rd_open_awaited(comm, peers) < 0)
			return 0;
		if (atomic_load(&comm->failed))
			return rd_comm_failure(comm);

		int64_t left_ms = deadline_ms - rd_clock_ms();

		comm->connecting.culprit = rd_open_awaited(comm, peers);
		if (left_ms <= 0)
			return rd_fail(RONDO_TIMEOUT,
				"rank %d waited %d ms for its link to rank %d", comm->rank,
				comm->settings.init_timeout_ms, comm->connecting.culprit);
		if (advanced || moved)
			continue;
		err = sleep_until_moved(comm, left_ms);
		if (err)
			return err;
	}
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* The number of channels to a peer, from the first on, of which each has a rail to itself. */
static uint32_t count_rails(const struct rondo_comm *comm, struct rd_endpoint *endpoint, int peer)
{
	const struct rd_transport *transport = endpoint->transport;
	struct rd_card card;
	int rails = 1;

	if (transport->rails && rd_route_card(comm, peer, transport, &card))
		rails = transport->rails(endpoint, card.bytes, card.size);
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
static int find_limits(struct rondo_comm *comm, struct rd_link_limits *limits)
{
	const struct rd_member *members = rd_control_members(comm->control);
	const struct rd_place *here = &members[comm->rank].place;

	*limits = (struct rd_link_limits){ comm->settings.piece_size, true, RD_NO_RAILS,
		RD_NO_RAILS, (uint32_t)comm->cores };
	for (int peer = 0; peer < comm->size; peer++) {
		bool near = rd_place_same_host(here, &members[peer].place);
		uint32_t *least = near ? &limits->near_rails : &limits->far_rails, rails;
		struct rd_endpoint *endpoint;

		if (peer == comm->rank)
			continue;
		endpoint = rd_route_cheapest(comm, members, peer, 0);
		if (!endpoint)
			return rd_open_unreachable(comm, peer);
		limits->maps &= endpoint->transport->map != NULL;
		rails = count_rails(comm, endpoint, peer);
		if (rails < *least)
			*least = rails;
	}
	return find_piece(comm, limits);
}

/* ---- Rings ----------------------------------------------------------------------------------- */

/* Opens the link to a neighbour in a ring, if it is on another host. Both ranks do. */
static int open_neighbour(struct rondo_comm *comm, const struct rd_layout *layout, int peer,
	struct rd_peer_set *peers)
{
	if (layout->group[peer] == layout->group[comm->rank] ||
		comm->connecting.pairs[peer].opening)
		return 0;
	peers->at[peers->count++] = peer;
	return rd_open_begin(comm, peer);
}

static int open_rings(struct rondo_comm *comm, struct rd_peer_set *peers)
{
	int size = comm->size, err = 0;

	for (int channel = 0; channel < comm->channels && !err; channel++) {
		const struct rd_layout *layout = comm->layouts[channel];
		int at = 0;

		while (layout->order[at] != comm->rank)
			at++;
		err = open_neighbour(comm, layout, layout->order[(at + 1) % size], peers);
		if (!err)
			err = open_neighbour(
				comm, layout, layout->order[(at + size - 1) % size], peers);
	}
	return err;
}

static void set_rails(struct rondo_comm *comm, enum rd_link_class class, uint32_t rails)
{
	comm->rails[class] = rails == RD_NO_RAILS ? 1 : rails;
}

static int connect_rings(
	struct rondo_comm *comm, const struct rd_link_limits *known, struct rd_peer_set *peers)
{
	struct rd_link_limits limits;
	int err = 0;

	if (known)
		limits = *known;
	else
		err = find_limits(comm, &limits);
	if (!err && !known)
		err = open_rings(comm, peers);
	for (int another = 1; !err && another;) {
		err = wait_until_open(comm, peers, false);
		if (err)
			return err;
		another = rd_control_ready(comm->control, comm->connecting.fallbacks, &limits);
		if (another < 0)
			err = another;
	}
	if (err)
		return err;
	comm->piece_size = (size_t)limits.piece_size;
	comm->maps = limits.maps;
	set_rails(comm, RD_NEAR, limits.near_rails);
	set_rails(comm, RD_FAR, limits.far_rails);
	comm->costs.cores = limits.cores;
	comm->connecting.made = true;
	return 0;
}

int rd_connect(struct rondo_comm *comm, const struct rd_link_limits *known)
{
	int neighbours[2 * RD_CHANNELS_MAX], err;
	struct rd_peer_set peers = { .at = neighbours };

	comm->connecting.pairs = calloc((size_t)comm->size, sizeof(*comm->connecting.pairs));
	comm->connecting.culprit = -1;
	if (!comm->connecting.pairs)
		return rd_fail(RONDO_MEMORY, "no memory for links to %d ranks", comm->size);
	err = connect_rings(comm, known, &peers);
	return err ? rd_comm_fail(comm, err, comm->connecting.culprit) : 0;
}

int rd_connect_now(struct rondo_comm *comm, const struct rd_peer_set *peers)
{
	int err;

	if (!comm->control)
		return 0;
	if (!rd_hold(comm))
		return rd_comm_failure(comm);
	err = wait_until_open(comm, peers, true);
	rd_unhold(comm);
	return err ? rd_comm_fail(comm, err, comm->connecting.culprit) : 0;
}
