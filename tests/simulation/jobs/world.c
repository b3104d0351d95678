#include "world.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

struct job_world job;

/* ---- Faults --------------------------------------------------------------------------------- */

/* Kernels ask the other hosts' whether they are there. */
static void begin_silence(void)
{
	for (int i = 0; i < sockets_count(); i++)
		if (sockets_at(i)->open)
			sim_event(SOCKET_SILENCE, i, sim.now_ns + JOB_UNREACHABLE_MS * MS);
}

static void kill_rank(int number, bool vanishes)
{
	struct job_rank *rank = &job.ranks[number];

	if (rank->dead || !fibers_has(number))
		return;
	rank->dead = true;
	sim.vanished |= (unsigned)vanishes << number;
	rank->dead_ns = sim.now_ns;
	fibers_end_all(number);
	kernel_close_all(number, vanishes);
	if (vanishes)
		begin_silence();
	memory_free_all(number);
}

static void pause_rank(int number, int ms)
{
	if (job.ranks[number].dead)
		return;
	job.ranks[number].paused_until = sim_until(ms);
	sim_event(EVENT_RESUME, number, sim_until(ms));
}

static void cut(unsigned side, int ms, bool rejects)
{
	sim_add_cut(side, ms, rejects);
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
		kernel_intrude((int)draw(&sim.run, (uint64_t)job.size), number[0]);
	else if (is_rank && (fault->kind == FAULT_kill || fault->kind == FAULT_vanish))
		kill_rank(number[0], fault->kind == FAULT_vanish);
	else if (is_rank && fault->kind == FAULT_pause)
		pause_rank(number[0], number[1]);
	else if (is_rank && fault->kind == FAULT_reset)
		kernel_reset(number[0]);
}

static void strike_faults(void)
{
	const struct fault *fault;

	while ((fault = sim_strike()) != NULL)
		strike(fault);
}

void job_tick(void)
{
	sim.events++;
	strike_faults();
	fibers_check();
}

/* ---- Time ----------------------------------------------------------------------------------- */

static void take_event(const struct rd_timed_event *event)
{
	if (event->kind != EVENT_RESUME)
		sockets_take_event((enum socket_event)event->kind, event->subject);
	else if (job.ranks[event->subject].paused_until <= sim.now_ns)
		job.ranks[event->subject].paused_until = 0;
}

static bool all_have_ended(void)
{
	for (int i = 0; i < job.size; i++)
		if (!job.ranks[i].dead && job.ranks[i].paused_until != NEVER && fibers_has(i))
			return false;
	return true;
}

static void run(void)
{
	uint64_t end_ns = sim_end_of_time(JOB_END_MS), at_ns;
	struct rd_timed_event event;

	while (!sim.failure[0] && !all_have_ended()) {
		int fiber = fibers_next(&at_ns);
		bool queued = sim.queue.count > 0 && sim.queue.heap[0].time_ns <= at_ns;

		sim.events++;
		if (queued)
			at_ns = sim.queue.heap[0].time_ns;
		if (at_ns > end_ns)
			return;
		if (at_ns > sim.now_ns)
			sim.now_ns = at_ns;
		strike_faults();
		if (queued && rd_event_queue_take(&sim.queue, &event))
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
	sim_begin(draw_from(seed, 24), ranks, job.hosts, faults, trace);
	for (int i = 0; i < ranks; i++)
		job.ranks[i] = (struct job_rank){ 0 };
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
		sim_fail("rank %d leaves %d descriptors", rank, kernel_count(rank));
	if (memory_used(rank))
		sim_fail("rank %d leaves %zu bytes", rank, memory_used(rank));
}

const char *jobs_run(uint64_t seed, int ranks, int groups, const struct faults *faults, bool trace)
{
	char text[FAULTS_TEXT];

	rd_log_set(RD_LOG_NONE, 0);
	begin(seed, ranks, groups, faults, trace);
	faults_print(faults, text);
	sim_trace(-1, "a job of %d ranks on %d hosts; faults: %s", ranks, job.hosts, text);
	run();
	if (!sim.failure[0])
		job_judge();
	for (int i = 0; i < ranks; i++) {
		judge_rest(i);
		memory_free_all(i);
	}
	return sim.failure[0] ? sim.failure : NULL;
}
