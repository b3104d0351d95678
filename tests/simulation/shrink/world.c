#include "world.h"

#include <stdio.h>
#include <string.h>

#include "bootstrap/control.h"
#include "report.h"

struct shrink_world world;

/* ---- For the other files of this folder ----------------------------------------------------- */

void shrink_event(enum shrink_event kind, int subject, uint64_t at_ns)
{
	struct rd_timed_event event = { .time_ns = at_ns, .kind = (int)kind, .subject = subject };

	if (at_ns != NEVER && rd_event_queue_put(&world.queue, event))
		shrink_fail("no memory for an event");
}

uint64_t shrink_delay(uint64_t most_ns)
{
	return draw(&world.run, most_ns + 1);
}

void shrink_touch(int rank)
{
	uint64_t at_ns = world.now_ns + shrink_delay(world.wake_ns);

	if (at_ns < world.ranks[rank].wake_ns)
		world.ranks[rank].wake_ns = at_ns;
}

static bool same_host(int a, int b)
{
	return a * world.hosts / world.size == b * world.hosts / world.size;
}

bool shrink_rejects(int a, int b)
{
	for (int i = 0; i < world.cut_count; i++)
		if (world.cuts[i].rejects && world.cuts[i].until_ns > world.now_ns &&
			(world.cuts[i].side >> a & 1) != (world.cuts[i].side >> b & 1))
			return !same_host(a, b);
	return false;
}

uint64_t shrink_cut(int a, int b)
{
	uint64_t until_ns = 0;

	for (int i = 0; i < world.cut_count; i++)
		if (!world.cuts[i].rejects &&
			(world.cuts[i].side >> a & 1) != (world.cuts[i].side >> b & 1) &&
			world.cuts[i].until_ns > world.now_ns && world.cuts[i].until_ns > until_ns)
			until_ns = world.cuts[i].until_ns;
	return world.ranks[a].vanished || world.ranks[b].vanished ? NEVER : until_ns;
}

bool shrink_silent(int a, int b)
{
	for (int i = 0; i < world.cut_count; i++)
		if (!world.cuts[i].rejects &&
			(world.cuts[i].side >> a & 1) != (world.cuts[i].side >> b & 1) &&
			world.cuts[i].until_ns > world.now_ns &&
			world.cuts[i].from_ns + SHRINK_HEARTBEAT_MS * MS <= world.now_ns)
			return true;
	return world.ranks[a].vanished || world.ranks[b].vanished;
}

void shrink_trace(int rank, const char *format, ...)
{
	va_list args;

	if (!world.trace)
		return;
	va_start(args, format);
	trace_print(world.events, world.now_ns, rank, format, args);
	va_end(args);
}

void shrink_fail(const char *format, ...)
{
	va_list args;

	if (world.failure[0])
		return;
	va_start(args, format);
	vsnprintf(world.failure, sizeof(world.failure), format, args);
	va_end(args);
}

/* ---- Faults --------------------------------------------------------------------------------- */

static void kill_rank(int number, bool vanishes)
{
	struct shrink_rank *rank = &world.ranks[number];

	if (rank->dead || rank->stage == STAGE_ENDED)
		return;
	rank->dead = true;
	rank->vanished = vanishes;
	if (vanishes) {
		places_begin_silence();
		comms_lose(number, RD_LOST, SHRINK_HEARTBEAT_MS * MS);
	} else {
		places_close_all(number);
		/* Bytes that it had not read make its kernel reset its connections. */
		comms_lose(number,
			world.hosts > 1 && draw_one_in(&world.run, 4) ? RD_CUT_OFF : RD_DEAD, 0);
	}
}

static void pause_rank(int number, int ms)
{
	struct shrink_rank *rank = &world.ranks[number];

	if (rank->dead || rank->stage == STAGE_ENDED)
		return;
	rank->paused_ns = world.now_ns;
	rank->paused_until = ms ? world.now_ns + (uint64_t)ms * MS : NEVER;
	shrink_event(EVENT_RESUME, number, rank->paused_until);
	shrink_event(EVENT_PAUSE, number, world.now_ns + SHRINK_HEARTBEAT_MS * MS);
}

static void reject(unsigned side, int ms)
{
	world.cuts[world.cut_count].rejects = true;
	world.cuts[world.cut_count].side = side;
	world.cuts[world.cut_count++].until_ns = ms ? world.now_ns + (uint64_t)ms * MS : NEVER;
	places_reject();
	comms_reject();
}

static void cut(unsigned side, int ms)
{
	world.cuts[world.cut_count].rejects = false;
	world.cuts[world.cut_count].side = side;
	world.cuts[world.cut_count].from_ns = world.now_ns;
	world.cuts[world.cut_count++].until_ns = ms ? world.now_ns + (uint64_t)ms * MS : NEVER;
	places_begin_silence();
	shrink_event(EVENT_CUTS, 0, world.now_ns + SHRINK_HEARTBEAT_MS * MS);
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
		places_intrude((int)draw(&world.run, (uint64_t)world.size), number[0]);
	else if (is_rank && (fault->kind == FAULT_kill || fault->kind == FAULT_vanish))
		kill_rank(number[0], fault->kind == FAULT_vanish);
	else if (is_rank && fault->kind == FAULT_pause)
		pause_rank(number[0], number[1]);
	else if (is_rank && fault->kind == FAULT_reset)
		places_reset(number[0]);
}

static void strike_faults(void)
{
	for (int i = 0; i < world.faults.count; i++) {
		struct faults one = { 1, { world.faults.at[i] } };
		char text[FAULTS_TEXT];

		if (world.fired[i] || world.events < one.at[0].event)
			continue;
		world.fired[i] = true;
		world.struck_ns = world.now_ns;
		faults_print(&one, text);
		shrink_trace(-1, "FAULT %s", text);
		strike(&one.at[0]);
	}
}

/* ---- Time ----------------------------------------------------------------------------------- */

static void take_event(const struct rd_timed_event *event)
{
	switch ((enum shrink_event)event->kind) {
	case EVENT_RESUME:
		if (world.ranks[event->subject].paused_until <= world.now_ns)
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
	int first = (int)draw(&world.run, (uint64_t)world.size), next = -1;

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

static uint64_t end_of_time(void)
{
	uint64_t ms = SHRINK_END_MS;

	for (int i = 0; i < world.faults.count; i++)
		ms += (uint64_t)world.faults.at[i].number[1];
	return ms * MS;
}

/* Until nothing is left to happen. */
static void run(void)
{
	uint64_t end_ns = end_of_time(), at_ns;
	struct rd_timed_event event;

	while (!world.failure[0]) {
		int rank;
		bool queued;

		world.events++;
		strike_faults();
		rank = next_rank(&at_ns);
		queued =
			world.queue.count > 0 && (rank < 0 || world.queue.heap[0].time_ns <= at_ns);
		if (rank < 0 && !queued)
			return;
		if (queued)
			at_ns = world.queue.heap[0].time_ns;
		if (at_ns > world.now_ns)
			world.now_ns = at_ns;
		if (world.now_ns > end_ns)
			return;
		if (queued && rd_event_queue_take(&world.queue, &event)) {
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
	world.faults = *faults;
	memset(world.fired, 0, sizeof(world.fired));
	world.run = draw_from(seed, 14);
	world.now_ns = world.events = world.struck_ns = 0;
	world.queue.count = 0;
	world.cut_count = world.comm_count = 0;
	world.ports = 0;
	world.trace = trace;
	world.failure[0] = '\0';
	for (int i = 0; i < size; i++) {
		ranks_begin(i);
		world.ranks[i].wake_ns = draw(&stream, MS);
	}
	comms_begin();
	shrink_event(EVENT_REVOKE, (int)draw(&stream, (uint64_t)size), draw(&stream, 30 * MS));
}

const char *shrink_run(uint64_t seed, int size, const struct faults *faults, bool trace)
{
	char text[FAULTS_TEXT];

	begin(seed, size, faults, trace);
	faults_print(faults, text);
	shrink_trace(-1, "a lineage of %d ranks on %d hosts; faults: %s", size, world.hosts, text);
	run();
	if (!world.failure[0])
		shrink_judge();
	for (int i = 0; i < size; i++)
		ranks_finish(i);
	return world.failure[0] ? world.failure : NULL;
}
