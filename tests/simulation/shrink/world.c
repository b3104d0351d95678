#include "world.h"

#include <stdio.h>
#include <string.h>

#include "bootstrap/control.h"
#include "trace.h"

struct line_world line;

/* ---- For the other files of this folder ----------------------------------------------------- */

void line_event(enum line_event kind, int subject, uint64_t at_ns)
{
	struct rd_timed_event event = { .time_ns = at_ns, .kind = (int)kind, .subject = subject };

	if (at_ns != NEVER && rd_event_queue_put(&line.queue, event))
		line_fail("no memory for an event");
}

uint64_t line_delay(uint64_t most_ns)
{
	return draw(&line.run, most_ns + 1);
}

void line_touch(int rank)
{
	uint64_t at_ns = line.now_ns + line_delay(line.wake_ns);

	if (at_ns < line.ranks[rank].wake_ns)
		line.ranks[rank].wake_ns = at_ns;
}

static bool same_host(int a, int b)
{
	return a * line.hosts / line.size == b * line.hosts / line.size;
}

bool line_rejects(int a, int b)
{
	for (int i = 0; i < line.cut_count; i++)
		if (line.cuts[i].rejects && line.cuts[i].until_ns > line.now_ns &&
			(line.cuts[i].side >> a & 1) != (line.cuts[i].side >> b & 1))
			return !same_host(a, b);
	return false;
}

uint64_t line_cut(int a, int b)
{
	uint64_t until_ns = 0;

	for (int i = 0; i < line.cut_count; i++)
		if (!line.cuts[i].rejects &&
			(line.cuts[i].side >> a & 1) != (line.cuts[i].side >> b & 1) &&
			line.cuts[i].until_ns > line.now_ns && line.cuts[i].until_ns > until_ns)
			until_ns = line.cuts[i].until_ns;
	return line.ranks[a].vanished || line.ranks[b].vanished ? NEVER : until_ns;
}

bool line_silent(int a, int b)
{
	for (int i = 0; i < line.cut_count; i++)
		if (!line.cuts[i].rejects &&
			(line.cuts[i].side >> a & 1) != (line.cuts[i].side >> b & 1) &&
			line.cuts[i].until_ns > line.now_ns &&
			line.cuts[i].from_ns + LINE_HEARTBEAT_MS * MS <= line.now_ns)
			return true;
	return line.ranks[a].vanished || line.ranks[b].vanished;
}

void line_trace(int rank, const char *format, ...)
{
	va_list args;

	if (!line.trace)
		return;
	va_start(args, format);
	trace_print(line.events, line.now_ns, rank, format, args);
	va_end(args);
}

void line_fail(const char *format, ...)
{
	va_list args;

	if (line.failure[0])
		return;
	va_start(args, format);
	vsnprintf(line.failure, sizeof(line.failure), format, args);
	va_end(args);
}

/* ---- Faults --------------------------------------------------------------------------------- */

static void kill_rank(int number, bool vanishes)
{
	struct line_rank *rank = &line.ranks[number];

	if (rank->dead || rank->stage == STAGE_ENDED)
		return;
	rank->dead = true;
	rank->vanished = vanishes;
	if (vanishes) {
		streams_begin_silence();
		comms_lose(number, RD_LOST, LINE_HEARTBEAT_MS * MS);
	} else {
		streams_close_all(number);
		/* Bytes that it had not read make its kernel reset its connections. */
		comms_lose(number,
			line.hosts > 1 && draw_one_in(&line.run, 4) ? RD_CUT_OFF : RD_DEAD, 0);
	}
}

static void pause_rank(int number, int ms)
{
	struct line_rank *rank = &line.ranks[number];

	if (rank->dead || rank->stage == STAGE_ENDED)
		return;
	rank->paused_ns = line.now_ns;
	rank->paused_until = ms ? line.now_ns + (uint64_t)ms * MS : NEVER;
	line_event(EVENT_RESUME, number, rank->paused_until);
	line_event(EVENT_PAUSE, number, line.now_ns + LINE_HEARTBEAT_MS * MS);
}

static void reject(unsigned side, int ms)
{
	line.cuts[line.cut_count].rejects = true;
	line.cuts[line.cut_count].side = side;
	line.cuts[line.cut_count++].until_ns = ms ? line.now_ns + (uint64_t)ms * MS : NEVER;
	streams_reject();
	comms_reject();
}

static void cut(unsigned side, int ms)
{
	line.cuts[line.cut_count].rejects = false;
	line.cuts[line.cut_count].side = side;
	line.cuts[line.cut_count].from_ns = line.now_ns;
	line.cuts[line.cut_count++].until_ns = ms ? line.now_ns + (uint64_t)ms * MS : NEVER;
	streams_begin_silence();
	line_event(EVENT_CUTS, 0, line.now_ns + LINE_HEARTBEAT_MS * MS);
}

static void strike(const struct fault *fault)
{
	const int *number = fault->number;
	bool is_rank = number[0] < line.size;

	if (fault->kind == FAULT_partition)
		cut((unsigned)number[0], number[1]);
	else if (fault->kind == FAULT_reject)
		reject((unsigned)number[0], number[1]);
	else if (fault->kind == FAULT_strange)
		streams_intrude((int)draw(&line.run, (uint64_t)line.size), number[0]);
	else if (is_rank && (fault->kind == FAULT_kill || fault->kind == FAULT_vanish))
		kill_rank(number[0], fault->kind == FAULT_vanish);
	else if (is_rank && fault->kind == FAULT_pause)
		pause_rank(number[0], number[1]);
	else if (is_rank && fault->kind == FAULT_reset)
		streams_reset(number[0]);
}

static void strike_faults(void)
{
	for (int i = 0; i < line.faults.count; i++) {
		struct faults one = { 1, { line.faults.at[i] } };
		char text[FAULTS_TEXT];

		if (line.fired[i] || line.events < one.at[0].event)
			continue;
		line.fired[i] = true;
		line.struck_ns = line.now_ns;
		faults_print(&one, text);
		line_trace(-1, "FAULT %s", text);
		strike(&one.at[0]);
	}
}

/* ---- Time ----------------------------------------------------------------------------------- */

static void take_event(const struct rd_timed_event *event)
{
	switch ((enum line_event)event->kind) {
	case EVENT_RESUME:
		if (line.ranks[event->subject].paused_until <= line.now_ns)
			line.ranks[event->subject].paused_until = 0;
		line_touch(event->subject);
		return;
	case EVENT_REVOKE:
		if (line_acts(&line.ranks[event->subject]))
			comms_revoke(event->subject);
		return;
	case EVENT_BREAK:
	case EVENT_PAUSE:
	case EVENT_CUTS:
		comms_take_event((enum line_event)event->kind, event->subject);
		return;
	default:
		streams_take_event((enum line_event)event->kind, event->subject);
	}
}

/* The next rank that is due, from a random one on; -1: none. */
static int next_rank(uint64_t *at_ns)
{
	int first = (int)draw(&line.run, (uint64_t)line.size), next = -1;

	*at_ns = NEVER;
	for (int i = 0; i < line.size; i++) {
		int rank = (first + i) % line.size;

		if (!line_acts(&line.ranks[rank]) || line.ranks[rank].wake_ns >= *at_ns)
			continue;
		next = rank;
		*at_ns = line.ranks[rank].wake_ns;
	}
	return next;
}

static uint64_t end_of_time(void)
{
	uint64_t ms = LINE_END_MS;

	for (int i = 0; i < line.faults.count; i++)
		ms += (uint64_t)line.faults.at[i].number[1];
	return ms * MS;
}

/* Until nothing is left to happen. */
static void run(void)
{
	uint64_t end_ns = end_of_time(), at_ns;
	struct rd_timed_event event;

	while (!line.failure[0]) {
		int rank;
		bool queued;

		line.events++;
		strike_faults();
		rank = next_rank(&at_ns);
		queued = line.queue.count > 0 && (rank < 0 || line.queue.heap[0].time_ns <= at_ns);
		if (rank < 0 && !queued)
			return;
		if (queued)
			at_ns = line.queue.heap[0].time_ns;
		if (at_ns > line.now_ns)
			line.now_ns = at_ns;
		if (line.now_ns > end_ns)
			return;
		if (queued && rd_event_queue_take(&line.queue, &event)) {
			take_event(&event);
		} else if (line_acts(&line.ranks[rank])) {
			line.ranks[rank].wake_ns = NEVER;
			ranks_run(rank);
		}
	}
}

/* ---- A seed --------------------------------------------------------------------------------- */

void line_draw(uint64_t seed, int size, struct faults *faults, int *drawn)
{
	static const enum fault_kind kinds[] = { FAULT_kill, FAULT_kill, FAULT_vanish, FAULT_pause,
		FAULT_partition, FAULT_reset, FAULT_reject, FAULT_strange };
	struct draw stream = draw_from(seed, 11), of_faults = draw_from(seed, 13);

	*drawn = 2 + (int)draw(&stream, LINE_RANKS - 1);
	faults_draw_of(faults, &of_faults, *drawn, 1, kinds, sizeof(kinds) / sizeof(kinds[0]));
	if (size > 1 && size < *drawn)
		*drawn = size;
	faults_fit(faults, *drawn, 1);
}

static void begin(uint64_t seed, int size, const struct faults *faults, bool trace)
{
	struct draw stream = draw_from(seed, 12);

	streams_finish();
	line.size = size;
	line.hosts = 1 + (int)draw(&stream, (uint64_t)size);
	line.network_ns = draw_one_in(&stream, 2) ? 20 * MS : MS / 10;
	line.wake_ns = draw_one_in(&stream, 2) ? MS : MS / 100;
	line.faults = *faults;
	memset(line.fired, 0, sizeof(line.fired));
	line.run = draw_from(seed, 14);
	line.now_ns = line.events = line.struck_ns = 0;
	line.queue.count = 0;
	line.cut_count = line.comm_count = 0;
	line.ports = 0;
	line.trace = trace;
	line.failure[0] = '\0';
	for (int i = 0; i < size; i++) {
		ranks_begin(i);
		line.ranks[i].wake_ns = draw(&stream, MS);
	}
	comms_begin();
	line_event(EVENT_REVOKE, (int)draw(&stream, (uint64_t)size), draw(&stream, 30 * MS));
}

const char *line_run(uint64_t seed, int size, const struct faults *faults, bool trace)
{
	char text[FAULTS_TEXT];

	begin(seed, size, faults, trace);
	faults_print(faults, text);
	line_trace(-1, "a line of %d ranks on %d hosts; faults: %s", size, line.hosts, text);
	run();
	if (!line.failure[0])
		line_judge();
	for (int i = 0; i < size; i++)
		ranks_finish(i);
	streams_finish();
	return line.failure[0] ? line.failure : NULL;
}
