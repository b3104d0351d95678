/* The opening of a rank's links: greetings both ways, rounds, fallbacks, as in comm/connect.c. */
#include <stdio.h>
#include <string.h>

#include "world.h"

#define TRANSPORTS 3 /* the last always works */
#define SILENT_ROUNDS 8
#define ROUND_MS (INIT_MS / 4 / SILENT_ROUNDS)

void connect_begin(struct world *world, struct sim_rank *rank)
{
	/* Greetings of peers may have come before. */
	for (int peer = 0; peer < world->size; peer++)
		rank->opening[peer].route = -1;
	rank->connect_ns = rank->round_ns = world->now_ns;
	rank->fallbacks = rank->rounds = 0;
	rank->checked = false;
}

/* The fault of this pair's transport. */
static bool is_faulty(const struct world *world, enum fault_kind kind, int a, int b, int route)
{
	for (int i = 0; i < world->faults.count; i++) {
		const struct fault *fault = &world->faults.at[i];

		if (fault->kind == kind && fault->number[0] == a && fault->number[1] == b &&
			fault->number[2] == route)
			return true;
	}
	return false;
}

static void report_failure(struct world *world, struct sim_rank *rank, int peer, const char *reason)
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
	world_trace(world, rank->rank, "transport %d to rank %d: %s", opening->route, peer, reason);
	rd_participant_link_failed(rank->participant, &failure);
}

static void open_pair(struct world *world, struct sim_rank *rank, int peer)
{
	struct opening *opening = &rank->opening[peer];
	int route = 0;

	while (opening->barred >> route & 1)
		route++;
	if (route == opening->route)
		return;
	opening->route = route;
	opening->failed = false;
	opening->since = rank->rounds;
	/* Its greeting may come through all the same. */
	if (is_faulty(world, FAULT_shut, rank->rank, peer, route))
		report_failure(world, rank, peer, "it cannot be opened");
	if (is_faulty(world, FAULT_deaf, rank->rank, peer, route))
		return;
	world_event(world, EVENT_GREETING, (rank->rank * RANKS_MAX + peer) * 8 + route,
		world->now_ns + world->latency_ns + world_delay(world, world->jitter_ns));
}

static void take_fallbacks(struct sim_rank *rank)
{
	const struct rd_link_failures *all = rd_participant_fallback(rank->participant);

	for (; rank->fallbacks < all->count; rank->fallbacks++) {
		const struct rd_link_failure *one = &all->at[rank->fallbacks];
		int peer = one->low == rank->rank ? one->high : one->low;

		rank->opening[peer].barred |= 1u << (one->transport[0] - '0');
	}
}

static bool is_open(const struct opening *opening)
{
	return !opening->failed && opening->heard >> opening->route & 1;
}

bool connect_step(struct world *world, struct sim_rank *rank)
{
	int rounds = rd_participant_rounds(rank->participant);
	bool waits = false;

	if (rounds != rank->rounds) {
		rank->rounds = rounds;
		rank->round_ns = world->now_ns;
		rank->checked = false;
	}
	take_fallbacks(rank);
	for (int peer = 0; peer < world->size; peer++) {
		struct opening *opening = &rank->opening[peer];

		if (peer == rank->rank)
			continue;
		open_pair(world, rank, peer);
		if (is_open(opening))
			continue;
		waits = true;
		if (!opening->failed && rank->rounds - opening->since >= SILENT_ROUNDS &&
			opening->route < TRANSPORTS - 1)
			report_failure(world, rank, peer, "nothing came through");
	}
	if (waits && !rank->checked && world->now_ns >= rank->round_ns + ROUND_MS * MS) {
		rank->checked = true;
		rd_participant_tried(rank->participant);
	}
	return !waits;
}

uint64_t connect_wake(const struct sim_rank *rank)
{
	uint64_t end_ns = rank->connect_ns + INIT_MS * MS;
	uint64_t check_ns = rank->round_ns + ROUND_MS * MS;

	return !rank->checked && check_ns < end_ns ? check_ns : end_ns;
}
