#include "world.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "report.h"

struct job_world job;

/* ---- For the other files of this folder ----------------------------------------------------- */

void job_event(int kind, int subject, uint64_t at_ns)
{
	struct rd_timed_event event = { .time_ns = at_ns, .kind = kind, .subject = subject };
	int rank = memory_enter(-1);

	if (at_ns != NEVER && rd_event_queue_put(&job.queue, event))
		job_fail("no memory for an event");
	memory_enter(rank);
}

uint64_t job_delay(uint64_t most_ns)
{
	return draw(&job.run, most_ns + 1);
}

static bool are_apart(int index, int a, int b)
{
	return (job.cuts[index].side >> a & 1) != (job.cuts[index].side >> b & 1) &&
	       job.ranks[a].host != job.ranks[b].host && job.cuts[index].until_ns > job.now_ns;
}

bool job_rejects(int a, int b)
{
	for (int i = 0; i < job.cut_count; i++)
		if (job.cuts[i].rejects && are_apart(i, a, b))
			return true;
	return false;
}

uint64_t job_cut(int a, int b)
{
	uint64_t until_ns = 0;

	for (int i = 0; i < job.cut_count; i++)
		if (!job.cuts[i].rejects && are_apart(i, a, b) && job.cuts[i].until_ns > until_ns)
			until_ns = job.cuts[i].until_ns;
	return job.ranks[a].vanished || job.ranks[b].vanished ? NEVER : until_ns;
}

void job_trace(int rank, const char *format, ...)
{
	va_list args;

	if (!job.trace)
		return;
	va_start(args, format);
	trace_print(job.events, job.now_ns, rank, format, args);
	va_end(args);
}

void job_fail(const char *format, ...)
{
	va_list args;

	if (job.failure[0])
		return;
	va_start(args, format);
	vsnprintf(job.failure, sizeof(job.failure), format, args);
	va_end(args);
}

/* ---- Faults --------------------------------------------------------------------------------- */

/* Kernels ask the other hosts' whether they are there. */
static void begin_silence(void)
{
	for (int i = 0; i < sockets_count(); i++)
		if (sockets_at(i)->open)
			job_event(SOCKET_SILENCE, i, job.now_ns + JOB_UNREACHABLE_MS * MS);
}

static void kill_rank(int number, bool vanishes)
{
	struct job_rank *rank = &job.ranks[number];

	if (rank->dead || !fibers_has(number))
		return;
	rank->dead = true;
	rank->vanished = vanishes;
	rank->dead_ns = job.now_ns;
	fibers_end_all(number);
	kernel_close_all(number, vanishes);
	if (vanishes)
		begin_silence();
	memory_free_all(number);
}

static uint64_t until(int ms)
{
	return ms ? job.now_ns + (uint64_t)ms * MS : NEVER;
}

static void pause_rank(int number, int ms)
{
	if (job.ranks[number].dead)
		return;
	job.ranks[number].paused_until = until(ms);
	job_event(EVENT_RESUME, number, until(ms));
}

static void cut(unsigned side, int ms, bool rejects)
{
	job.cuts[job.cut_count].side = side;
	job.cuts[job.cut_count].rejects = rejects;
	job.cuts[job.cut_count].from_ns = job.now_ns;
	job.cuts[job.cut_count++].until_ns = until(ms);
	if (rejects)
		kernel_reject();
	else
		begin_silence();
}

static void strike(const struct fault *fault)
{
	const int *number = fault->number;
	bool is_rank = number[0] < job.size;

	if (fault->kind == FAULT_partition || fault->kind == FAULT_reject)
		cut((unsigned)number[0], number[1], fault->kind == FAULT_reject);
	else if (fault->kind == FAULT_strange)
		kernel_intrude((int)draw(&job.run, (uint64_t)job.size), number[0]);
	else if (is_rank && (fault->kind == FAULT_kill || fault->kind == FAULT_vanish))
		kill_rank(number[0], fault->kind == FAULT_vanish);
	else if (is_rank && fault->kind == FAULT_pause)
		pause_rank(number[0], number[1]);
	else if (is_rank && fault->kind == FAULT_reset)
		kernel_reset(number[0]);
}

static void strike_faults(void)
{
	for (int i = 0; i < job.faults.count; i++) {
		struct faults one = { 1, { job.faults.at[i] } };
		char text[FAULTS_TEXT];

		if (job.fired[i] || job.events < one.at[0].event)
			continue;
		job.fired[i] = true;
		faults_print(&one, text);
		job_trace(-1, "FAULT %s", text);
		strike(&one.at[0]);
	}
}

void job_tick(void)
{
	job.events++;
	strike_faults();
	fibers_check();
}

/* ---- Time ----------------------------------------------------------------------------------- */

static void take_event(const struct rd_timed_event *event)
{
	if (event->kind != EVENT_RESUME)
		sockets_take_event((enum socket_event)event->kind, event->subject);
	else if (job.ranks[event->subject].paused_until <= job.now_ns)
		job.ranks[event->subject].paused_until = 0;
}

static bool all_have_ended(void)
{
	for (int i = 0; i < job.size; i++)
		if (!job.ranks[i].dead && job.ranks[i].paused_until != NEVER && fibers_has(i))
			return false;
	return true;
}

static uint64_t end_of_time(void)
{
	uint64_t ms = JOB_END_MS;

	for (int i = 0; i < job.faults.count; i++)
		ms += (uint64_t)job.faults.at[i].number[1];
	return ms * MS;
}

static void run(void)
{
	uint64_t end_ns = end_of_time(), at_ns;
	struct rd_timed_event event;

	while (!job.failure[0] && !all_have_ended()) {
		int fiber = fibers_next(&at_ns);
		bool queued = job.queue.count > 0 && job.queue.heap[0].time_ns <= at_ns;

		job.events++;
		if (queued)
			at_ns = job.queue.heap[0].time_ns;
		if (at_ns > end_ns)
			return;
		if (at_ns > job.now_ns)
			job.now_ns = at_ns;
		strike_faults();
		if (queued && rd_event_queue_take(&job.queue, &event))
			take_event(&event);
		else if (!queued && job_acts(fibers_rank_of(fiber)))
			fibers_run(fiber);
	}
}

/* ---- A seed --------------------------------------------------------------------------------- */

void jobs_draw(uint64_t seed, int most_ranks, int most_groups, struct faults *faults, int *ranks,
	int *groups)
{
	static const enum fault_kind kinds[] = { FAULT_kill, FAULT_kill, FAULT_vanish, FAULT_pause,
		FAULT_partition, FAULT_reset, FAULT_reject, FAULT_strange };
	struct draw stream = draw_from(seed, 21), of_faults = draw_from(seed, 23);

	*ranks = 2 + (int)draw(&stream, JOB_RANKS - 1);
	*groups = 1 + (int)draw(&stream, JOB_COMMS - 1);
	faults_draw_of(faults, &of_faults, *ranks, 1, kinds, sizeof(kinds) / sizeof(kinds[0]));
	if (most_ranks > 1 && most_ranks < *ranks)
		*ranks = most_ranks;
	if (most_groups > 0 && most_groups < *groups)
		*groups = most_groups;
	faults_fit(faults, *ranks, 1);
}

static void begin(uint64_t seed, int ranks, int groups, const struct faults *faults, bool trace)
{
	struct draw stream = draw_from(seed, 22);

	job.seed = seed;
	job.size = ranks;
	job.hosts = 1 + (int)draw(&stream, (uint64_t)(ranks < 3 ? ranks : 3));
	job.network_ns = draw_one_in(&stream, 2) ? 20 * MS : MS / 10;
	job.wake_ns = draw_one_in(&stream, 2) ? MS : MS / 100;
	job.faults = *faults;
	memset(job.fired, 0, sizeof(job.fired));
	job.run = draw_from(seed, 24);
	job.now_ns = job.events = 0;
	job.queue.count = 0;
	job.cut_count = 0;
	job.trace = trace;
	job.failure[0] = '\0';
	for (int i = 0; i < ranks; i++)
		job.ranks[i] = (struct job_rank){ .host = i * job.hosts / ranks };
	plan_draw(seed, groups + 1);
	fibers_begin();
	kernel_begin();
	for (int i = 0; i < ranks; i++)
		program_start(i);
}

/* A rank that has ended has nothing left. */
static void judge_rest(int rank)
{
	if (job.ranks[rank].dead || fibers_has(rank))
		return;
	if (kernel_count(rank))
		job_fail("rank %d leaves %d descriptors", rank, kernel_count(rank));
	if (memory_used(rank))
		job_fail("rank %d leaves %zu bytes", rank, memory_used(rank));
}

const char *jobs_run(uint64_t seed, int ranks, int groups, const struct faults *faults, bool trace)
{
	char text[FAULTS_TEXT];

	rd_log_set(RD_LOG_NONE, 0);
	begin(seed, ranks, groups, faults, trace);
	faults_print(faults, text);
	job_trace(-1, "a job of %d ranks on %d hosts; faults: %s", ranks, job.hosts, text);
	run();
	if (!job.failure[0])
		job_judge();
	for (int i = 0; i < ranks; i++) {
		judge_rest(i);
		memory_free_all(i);
	}
	return job.failure[0] ? job.failure : NULL;
}
