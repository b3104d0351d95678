/* ctest label: threads */
/* How a call on a stream waits: it takes no core from a computation beside it. */
#include <criterion/criterion.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "comm/turn.h"
#include "comm/wait.h"
#include "world.h"

#define WAIT_MS 20000

static sem_t slept;

/* Rank 1 joins the call only when rank 0 sleeps in it. */
static int wait_beside(struct rank_env *env)
{
	struct rondo_comm *comm = env->comm;
	uint32_t before = atomic_load(&comm->activity.slept_in);
	int64_t until_ms = world_now_ms() + WAIT_MS;
	rondo_stream *stream;
	float value = 1;

	/* A spin would have no end within this test. */
	comm->settings.spin_us = INT_MAX;
	comm->spin_ns = INT64_MAX;
	TRY(rondo_stream_create(&stream));
	if (env->rank == 1 && !world_wait(&slept))
		return world_report(env, "the other rank does not sleep");
	TRY(rondo_all_reduce(comm, &value, &value, 1, RONDO_F32, RONDO_SUM, stream));
	while (env->rank == 0 && atomic_load(&comm->activity.slept_in) == before) {
		if (world_now_ms() > until_ms)
			return world_report(env, "the stream's thread spins");
		sched_yield();
	}
	if (env->rank == 0)
		sem_post(&slept);
	TRY(rondo_stream_synchronize(stream));
	rondo_stream_destroy(stream);
	return value == 2 ? 0 : world_report(env, "the sum is %g", value);
}

Test(waits, on_a_stream_leave_the_core_to_the_caller, .timeout = 60)
{
	const char *const transports[] = { "shm", "tcp" };

	world_use_two_cores();
	for (int i = 0; i < 2; i++) {
		struct world world = { .size = 2, .transport = transports[i], .threads = true };
		struct rank_outcome outcomes[WORLD_MAX];

		sem_init(&slept, 0, 0);
		cr_assert_eq(world_run(&world, wait_beside, NULL, outcomes), 0);
		sem_destroy(&slept);
	}
}

/* In the stream's thread, until the caller waits for it. */
static void await_caller(void *argument)
{
	bool *awaited = argument;
	int64_t until_ms = world_now_ms() + WAIT_MS;

	while (!*awaited && world_now_ms() < until_ms) {
		*awaited = !rd_turn_runs_beside();
		sched_yield();
	}
}

Test(waits, a_caller_that_waits_for_its_stream_leaves_it_the_core, .timeout = 60)
{
	rondo_stream *stream;
	bool awaited = false;

	cr_assert(!rd_turn_runs_beside(), "this thread works off no queue");
	cr_assert_eq(rondo_stream_create(&stream), 0);
	cr_assert_eq(rondo_stream_call(stream, await_caller, &awaited), 0);
	cr_assert_eq(rondo_stream_synchronize(stream), 0);
	cr_assert(awaited);
	rondo_stream_destroy(stream);
}

static atomic_int beside = -1;

static void look_beside(void *argument, int error)
{
	(void)argument, (void)error;
	atomic_store(&beside, rd_turn_runs_beside());
}

static int run_by_worker(struct rank_env *env)
{
	int64_t until_ms = world_now_ms() + WAIT_MS;
	rondo_request *request;

	TRY(rondo_group_start());
	TRY(rondo_barrier(env->comm, NULL));
	TRY(rondo_group_prepare(&request));
	TRY(rondo_request_start(request, look_beside, NULL));
	while (rondo_request_test(request) == RONDO_PENDING && world_now_ms() < until_ms)
		sched_yield();
	TRY(rondo_request_test(request));
	rondo_request_destroy(request);
	return 0;
}

/* The program may wait for its done() alone. */
Test(waits, in_a_requests_worker_are_those_of_a_caller, .timeout = 60)
{
	struct world world = { .size = 1, .threads = true };

	cr_assert_eq(world_run(&world, run_by_worker, NULL, NULL), 0);
	cr_assert_eq(atomic_load(&beside), 0);
}

/* Rank 1 joins the barrier only when rank 0's wait is seen, which ends with the barrier. */
static int wait_once(struct rank_env *env)
{
	static struct rd_activity *_Atomic waiter;
	int64_t until_ms = world_now_ms() + WAIT_MS;

	if (env->rank == 0)
		atomic_store(&waiter, &env->comm->activity);
	while (env->rank == 1 && (!waiter || !atomic_load(&waiter->waiting_seen_ms))) {
		if (world_now_ms() > until_ms)
			return world_report(env, "nobody waits");
		sched_yield();
	}
	TRY(rondo_barrier(env->comm, NULL));
	if (env->rank == 0 && atomic_load(&waiter->waiting_seen_ms))
		return world_report(env, "a wait that is over is seen");
	return 0;
}

Test(waits, that_are_over_are_not_seen, .timeout = 60)
{
	WORLD_TRY(wait_once, .size = 2, .threads = true);
}

/* The first round of a wait, without and with a spin. */
static int wait_a_round(struct rank_env *env)
{
	const int64_t spins_ns[] = { 0, INT64_C(1000000000) };

	for (int i = 0; i < 2; i++) {
		struct rd_task task = { .comm = env->comm, .timeout_ms = WAIT_MS, .after = -1 };
		struct rd_wait wait = { 0 };
		struct rd_batch batch;
		int sleep_ms;

		rd_batch_init(&batch, &task, 1);
		env->comm->spin_ns = spins_ns[i];
		TRY(rd_wait_round(&batch, &wait, &sleep_ms));
		rd_wait_end(env->comm, &wait);
		if ((sleep_ms > 0) != (i == 0))
			return world_report(env, "with %lld ns it sleeps for %d ms",
				(long long)spins_ns[i], sleep_ms);
	}
	return 0;
}

/* RONDO_SPIN_US=0 leaves the core to others. In each round of a spin tcp asks the kernel. */
Test(waits, without_a_spin_sleep_at_once, .timeout = 60)
{
	struct world world = { .size = 1, .threads = true };

	world_use_two_cores();
	cr_assert_eq(world_run(&world, wait_a_round, NULL, NULL), 0);
}

static int find_one_core(struct rank_env *env)
{
	const struct rondo_comm *comm = env->comm;

	return comm->cores == 1 && comm->oversubscribed
		       ? 0
		       : world_report(env, "%d cores", comm->cores);
}

/* The launcher is a task of one processor, whatever the affinity mask has. */
Test(waits, ranks_beyond_their_quota_do_not_spin, .timeout = 60)
{
	setenv("SLURM_STEP_NUM_TASKS", "1", 1);
	setenv("SLURM_CPUS_PER_TASK", "1", 1);
	cr_assert_eq(world_run(&(struct world){ .size = 2, .threads = ONLY_THREADS }, find_one_core,
			     NULL, NULL),
		0);
}
