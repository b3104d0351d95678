#include "world.h"

#include <stdio.h>
#include <string.h>

#include "bootstrap/control.h"

struct shrink_world world;

/* ---- For the other files of this folder ----------------------------------------------------- */

void shrink_touch(int rank)
{
	uint64_t at_ns = sim.now_ns + sim_delay(world.wake_ns);

	if (at_ns < world.ranks[rank].wake_ns)
		world.ranks[rank].wake_ns = at_ns;
}

/* ---- Faults --------------------------------------------------------------------------------- */

static void kill_rank(int number, bool vanishes)
{
	struct shrink_rank *rank = &world.ranks[number];

	if (rank->dead || rank->stage == STAGE_ENDED)
		return;
	rank->dead = true;
	sim.vanished |= (unsigned)vanishes << number;
	if (vanishes) {
		places_begin_silence();
		comms_lose(number, RD_LOST, SHRINK_HEARTBEAT_MS * MS);
	} else {
		places_close_all(number);
		/* Bytes that it had not read make its kernel reset its connections. */
		comms_lose(number,
			world.hosts > 1 && draw_one_in(&sim.run, 4) ? RD_CUT_OFF : RD_DEAD, 0);
	}
}

static void pause_rank(int number, int ms)
{
	struct shrink_rank *rank = &world.ranks[number];

	if (rank->dead || rank->stage == STAGE_ENDED)
		return;
	rank->paused_ns = sim.now_ns;
	rank->paused_until = sim_until(ms);
	sim_event(EVENT_RESUME, number, rank->paused_until);
	sim_event(EVENT_PAUSE, number, sim.now_ns + SHRINK_HEARTBEAT_MS * MS);
}

static void reject(unsigned side, int ms)
{
	sim_add_cut(side, ms, true);
	places_reject();
	comms_reject();
}

static void cut(unsigned side, int ms)
{
	sim_add_cut(side, ms, false);
	places_begin_silence();
	sim_event(EVENT_CUTS, 0, sim.now_ns + SHRINK_HEARTBEAT_MS * MS);
}

static void strike(const struct fault *fault)
{
	const int *number = fault->number;
	bool is_rank = number[0] < world.size;

	if (fault->kind == FAULT_partition)
		cut((unsigned)number[0], number[1]);
	else if (fault->kind == FAULT_reject)
		reject((unsigned)number[0], number[1]);
	else if (fault->kind == FAULT_strange)
		places_intrude((int)draw(&sim.run, (uint64_t)world.size), number[0]);
	else if (is_rank && (fault->kind == FAULT_kill || fault->kind == FAULT_vanish))
		kill_rank(number[0], fault->kind == FAULT_vanish);
	else if (is_rank && fault->kind == FAULT_pause)
		pause_rank(number[0], number[1]);
	else if (is_rank && fault->kind == FAULT_reset)
		places_reset(number[0]);
}

static void strike_faults(void)
{
	const struct fault *fault;

	while ((fault = sim_strike()) != NULL)
		strike(fault);
}

/* ---- Time ----------------------------------------------------------------------------------- */

static void take_event(const struct rd_timed_event *event)
{
	switch ((enum shrink_event)event->kind) {
	case EVENT_RESUME:
		if (world.ranks[event->subject].paused_until <= sim.now_ns)
			world.ranks[event->subject].paused_until = 0;
		shrink_touch(event->subject);
		return;
	case EVENT_REVOKE:
		if (shrink_acts(&world.ranks[event->subject]))
			comms_revoke(event->subject);
		return;
	case EVENT_BREAK:
	case EVENT_PAUSE:
	case EVENT_CUTS:
		comms_take_event((enum shrink_event)event->kind, event->subject);
		return;
	default:
		sockets_take_event((enum socket_event)event->kind, event->subject);
	}
}

/* The next rank that is due, from a random one on; -1: none. */
static int next_rank(uint64_t *at_ns)
{
	int first = (int)draw(&sim.run, (uint64_t)world.size), next = -1;

	*at_ns = NEVER;
	for (int i = 0; i < world.size; i++) {
		int rank = (first + i) % world.size;

		if (!shrink_acts(&world.ranks[rank]) || world.ranks[rank].wake_ns >= *at_ns)
			continue;
		next = rank;
		*at_ns = world.ranks[rank].wake_ns;
	}
	return next;
}

/* Until nothing is left to happen. */
static void run(void)
{
	uint64_t end_ns = sim_end_of_time(SHRINK_END_MS), at_ns;
	struct rd_timed_event event;

	while (!sim.failure[0]) {
		int rank;
		bool queued;

		sim.events++;
		strike_faults();
		rank = next_rank(&at_ns);
		queued = sim.queue.count > 0 && (rank < 0 || sim.queue.heap[0].time_ns <= at_ns);
		if (rank < 0 && !queued)
			return;
		if (queued)
			at_ns = sim.queue.heap[0].time_ns;
		if (at_ns > sim.now_ns)
			sim.now_ns = at_ns;
		if (sim.now_ns > end_ns)
			return;
		if (queued && rd_event_queue_take(&sim.queue, &event)) {
			take_event(&event);
		} else if (shrink_acts(&world.ranks[rank])) {
			world.ranks[rank].wake_ns = NEVER;
			ranks_run(rank);
		}
	}
}

/* ---- A seed --------------------------------------------------------------------------------- */

void shrink_draw(uint64_t seed, int size, struct faults *faults, int *drawn)
{
	static const enum fault_kind kinds[] = { FAULT_kill, FAULT_kill, FAULT_vanish, FAULT_pause,
		FAULT_partition, FAULT_reset, FAULT_reject, FAULT_strange };
	struct draw stream = draw_from(seed, 11), of_faults = draw_from(seed, 13);

	*drawn = 2 + (int)draw(&stream, SHRINK_RANKS - 1);
	faults_draw_of(faults, &of_faults, *drawn, 1, kinds, sizeof(kinds) / sizeof(kinds[0]));
	if (size > 1 && size < *drawn)
		*drawn = size;
	faults_fit(faults, *drawn, 1);
}

static void begin(uint64_t seed, int size, const struct faults *faults, bool trace)
{
	struct draw stream = draw_from(seed, 12);

	places_begin();
	world.size = size;
	world.hosts = 1 + (int)draw(&stream, (uint64_t)size);
	world.network_ns = draw_one_in(&stream, 2) ? 20 * MS : MS / 10;
	world.wake_ns = draw_one_in(&stream, 2) ? MS : MS / 100;
	sim_begin(draw_from(seed, 14), size, world.hosts, faults, trace);
	sim.parts_hosts = true;
	world.comm_count = 0;
	world.ports = 0;
	for (int i = 0; i < size; i++) {
		ranks_begin(i);
		world.ranks[i].wake_ns = draw(&stream, MS);
	}
	comms_begin();
	sim_event(EVENT_REVOKE, (int)draw(&stream, (uint64_t)size), draw(&stream, 30 * MS));
}

const char *shrink_run(uint64_t seed, int size, const struct faults *faults, bool trace)
{
	char text[FAULTS_TEXT];

	begin(seed, size, faults, trace);
	faults_print(faults, text);
	sim_trace(-1, "a lineage of %d ranks on %d hosts; faults: %s", size, world.hosts, text);
	run();
	if (!sim.failure[0])
		shrink_judge();
	for (int i = 0; i < size; i++)
		ranks_finish(i);
	return sim.failure[0] ? sim.failure : NULL;
}
