/* The opening of a rank's links: when a call needs them, when the peer does; greetings both ways,
   confirmations, fallbacks, as in comm/opening.c. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "plan/peer_set.h"
#include "world.h"

/* The fault of this pair's transport. */
static bool is_faulty(enum fault_kind kind, int a, int b, int route)
{
	for (int i = 0; i < sim.faults.count; i++) {
		const struct fault *fault = &sim.faults.at[i];

		if (fault->kind == kind && fault->number[0] == a && fault->number[1] == b &&
			fault->number[2] == route)
			return true;
	}
	return false;
}

/* ---- Greetings ------------------------------------------------------------------------------ */

static void send_greeting(struct world *world, int from, int to, int route, bool confirms)
{
	sim_event(EVENT_GREETING, ((from * RANKS_MAX + to) * 2 + confirms) * 8 + route,
		sim.now_ns + world->latency_ns + world_delay(world, world->jitter_ns));
}

void connect_take(struct world *world, int subject)
{
	int from = subject / 16 / RANKS_MAX, to = subject / 16 % RANKS_MAX, route = subject % 8;
	struct opening *opening = &world->ranks[to].opening[from];

	if (is_faulty(FAULT_deaf, from, to, route))
		opening->broken |= 1u << route;
	else if (subject / 8 % 2)
		opening->confirmations |= 1u << route;
	else
		opening->heard |= 1u << route;
	world_touch(world, to);
}

/* ---- One pair ------------------------------------------------------------------------------- */

static void report_failure(struct sim_rank *rank, int peer, const char *reason)
{
	struct opening *opening = &rank->opening[peer];
	struct rd_link_failure failure = {
		.low = rank->rank < peer ? rank->rank : peer,
		.high = rank->rank < peer ? peer : rank->rank,
		.by = rank->rank,
		.transport = { (char)('0' + opening->route) },
	};

	snprintf(failure.reason, sizeof(failure.reason), "%s", reason);
	opening->failed = true;
	sim_trace(rank->rank, "transport %d to rank %d: %s", opening->route, peer, reason);
	rd_participant_link_failed(rank->participant, &failure);
}

/* Over the first transport that has not failed the pair; the last always works. */
static void open_route(struct world *world, struct sim_rank *rank, int peer)
{
	struct opening *opening = &rank->opening[peer];
	int route = 0;

	while (opening->barred >> route & 1)
		route++;
	opening->begun = true;
	opening->route = route;
	opening->failed = opening->confirmed = false;
	/* Its greeting may come through all the same. */
	if (is_faulty(FAULT_shut, rank->rank, peer, route))
		report_failure(rank, peer, "it cannot be opened");
	send_greeting(world, rank->rank, peer, route, false);
}

static void try_pair(struct world *world, struct sim_rank *rank, int peer)
{
	struct opening *opening = &rank->opening[peer];
	const struct opening *other = &world->ranks[peer].opening[rank->rank];
	unsigned bit = 1u << opening->route;

	if (!opening->begun || opening->open)
		return;
	if (opening->left_ns && sim.now_ns >= opening->left_ns + RD_QUERY_MS * MS) {
		rd_fail(RONDO_BROKEN, "rank %d opens a link to rank %d", rank->rank, peer);
		rank_report(rank, RONDO_BROKEN, peer);
		return;
	}
	if (opening->failed)
		return;
	if (opening->broken & bit) {
		report_failure(rank, peer, "it broke");
		return;
	}
	if (opening->heard & bit && !opening->confirmed) {
		opening->confirmed = true;
		send_greeting(world, rank->rank, peer, opening->route, true);
	}
	if (!opening->confirmed || !(opening->confirmations & bit))
		return;
	opening->open = true;
	sim_trace(rank->rank, "link to rank %d over transport %d", peer, opening->route);
	if (other->open && other->route != opening->route)
		sim_fail("ranks %d and %d use different transports", rank->rank, peer);
}

/* ---- News of other ranks -------------------------------------------------------------------- */

static void take_fallback(
	struct world *world, struct sim_rank *rank, const struct rd_link_failure *failure)
{
	int peer = failure->low == rank->rank ? failure->high : failure->low;
	struct opening *opening = &rank->opening[peer];
	int route = failure->transport[0] - '0';

	if (failure->transport[0] == '\0') {
		opening->left_ns = sim.now_ns;
		return;
	}
	opening->barred |= 1u << route;
	if (!opening->begun || opening->route != route)
		return;
	if (!opening->open) {
		open_route(world, rank, peer);
		return;
	}
	/* A confirmed link has carried greetings both ways. */
	rd_fail(RONDO_BROKEN, "rank %d: the link to rank %d broke", rank->rank, peer);
	rank_report(rank, RONDO_BROKEN, peer);
}

static void take_news(struct world *world, struct sim_rank *rank)
{
	const struct rd_link_failures *all = &rank->participant->fallbacks;
	const struct rd_rank_list *opened = &rank->participant->opened;

	while (rank->fallbacks < all->count && rank->stage != STAGE_REPORTING)
		take_fallback(world, rank, &all->at[rank->fallbacks++]);
	for (; rank->opened < opened->count; rank->opened++)
		if (!rank->opening[opened->at[rank->opened]].begun)
			open_route(world, rank, opened->at[rank->opened]);
}

void connect_step(struct world *world, struct sim_rank *rank)
{
	if (rank->stage < STAGE_CONNECTING || rank->stage >= STAGE_REPORTING)
		return;
	take_news(world, rank);
	for (int peer = 0; peer < world->size && rank->stage != STAGE_REPORTING; peer++)
		try_pair(world, rank, peer);
}

/* ---- The rank's own ------------------------------------------------------------------------- */

/* Both neighbours open the link: nobody has to be told. */
void connect_begin(struct world *world, struct sim_rank *rank)
{
	rank->connect_ns = sim.now_ns;
	rank->fallbacks = rank->opened = 0;
	for (int step = 1; step<world->size; step += world->size> 2 ? world->size - 2 : 1) {
		int peer = (rank->rank + step) % world->size;

		if (!rank->opening[peer].begun)
			open_route(world, rank, peer);
	}
}

bool connect_is_open(const struct world *world, const struct sim_rank *rank)
{
	for (int peer = 0; peer < world->size; peer++)
		if (rank->opening[peer].begun && !rank->opening[peer].open)
			return false;
	return true;
}

int connect_reach(struct world *world, struct sim_rank *rank)
{
	struct rd_peer_set peers;
	int awaited = -1;

	if (rd_peer_set_of_plans(&peers, rank->made.plans, world->channels))
		sim_fail("no memory for peers");
	for (int i = peers.count - 1; i >= 0; i--) {
		struct opening *opening = &rank->opening[peers.at[i]];

		if (opening->open)
			continue;
		awaited = peers.at[i];
		if (opening->begun)
			continue;
		rd_participant_open(rank->participant, awaited);
		open_route(world, rank, awaited);
	}
	rd_peer_set_finish(&peers);
	return awaited;
}

uint64_t connect_wake(const struct sim_rank *rank)
{
	return rank->connect_ns + INIT_MS * MS;
}
