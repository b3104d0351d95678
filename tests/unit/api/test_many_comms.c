/* ctest label: threads */
/* Comms that are made from one comm: they share a control thread, and fail each for itself. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "control_ranks.h"
#include "world.h"

#define COPIES 20
#define WATCHERS 2 /* threads of the watch, which begin and end with the life of a peer */

/* ---- Threads -------------------------------------------------------------------------------- */

static int duplicate_often(struct rank_env *env)
{
	rondo_comm *copies[COPIES];
	int threads = count_threads(), sum;

	for (int i = 0; i < COPIES; i++)
		TRY(rondo_comm_duplicate(env->comm, &copies[i]));
	for (int i = 0; i < COPIES; i++) {
		sum = 1 << env->rank;
		TRY(rondo_all_reduce(copies[i], &sum, &sum, 1, RONDO_I32, RONDO_SUM, NULL));
		if (sum != (1 << env->size) - 1)
			return world_report(env, "copy %d: %d", i, sum);
	}
	if (!env->world->threads && count_threads() > threads + WATCHERS)
		return world_report(env, "%d threads, then %d", threads, count_threads());
	/* The first of them last, and the comm that they are made from before them. */
	TRY(world_leave(env));
	for (int i = COPIES - 1; i >= 0; i--)
		TRY(rondo_comm_destroy(copies[i]));
	return 0;
}

/* Control threads end a moment after their ranks. Criterion uses OpenSSL, which cleans up when the
   process exits, and a thread that ends later leaks its state there. */
static bool await_threads(int most)
{
	int64_t deadline_ms = world_now_ms() + 10000;

	while (count_threads() > most && world_now_ms() < deadline_ms)
		sched_yield();
	return count_threads() <= most;
}

Test(many_comms, have_no_threads_of_their_own, .timeout = 120)
{
	struct world threads = { .size = 3, .threads = true };
	int before;

	world_try(3, "shm", duplicate_often);
	world_try(3, "tcp", duplicate_often);
	world_try(4, "mixed", duplicate_often);
	before = count_threads();
	cr_assert_eq(world_run(&threads, duplicate_often, NULL, NULL), 0);
	cr_expect(await_threads(before), "%d threads, then %d", before, count_threads());
}

/* ---- Deaths --------------------------------------------------------------------------------- */

#define VICTIM 3

struct scenario {
	int pipe[2];
	bool first_leaves; /* the first of two that go */
	int (*body)(struct rank_env *env);
	bool killed[4];
};

/* The death is not seen by the end of its sockets: a child holds them. */
static void die(const struct scenario *scenario)
{
	char byte;

	if (_Fork() == 0) {
		close(scenario->pipe[1]);
		if (read(scenario->pipe[0], &byte, 1) <= 0)
			_exit(0);
	}
	raise(SIGKILL);
}

/* Ranks 1 and 3 are a comm, and 0 and 2. Rank 2 watches over rank 3. */
static int lose_one(struct rank_env *env)
{
	rondo_comm *half;
	int err, sum = env->rank;

	TRY(rondo_comm_split(env->comm, env->rank % 2, 0, &half));
	TRY(rondo_barrier(half, NULL));
	TRY(rondo_barrier(env->comm, NULL));
	world_meet(env, env->size);
	if (env->rank == VICTIM)
		die(env->argument);
	err = rondo_barrier(env->comm, NULL);
	if (world_expect(env, "the barrier of all", err, RONDO_DIED, "rank 3"))
		return 1;
	if (env->rank == 1) {
		EXPECT_ERROR(rondo_barrier(half, NULL), RONDO_DIED, "rank 1 (");
	} else {
		for (int i = 0; i < 100; i++)
			TRY(rondo_all_reduce(half, &sum, &sum, 1, RONDO_I32, RONDO_SUM, NULL));
		if (rondo_comm_error(half))
			return world_report(env, "the comm without rank 3 has failed");
	}
	rondo_comm_destroy(half);
	return 0;
}

/* No missing heartbeat shows the death. */
static void try_death(const char *transport, struct scenario scenario)
{
	struct world world = { .size = 4, .transport = transport };
	struct rank_outcome outcomes[WORLD_MAX];

	if (ONLY_THREADS)
		cr_skip_test("ranks are processes");
	setenv("RONDO_HEARTBEAT_TIMEOUT_MS", "300000", 1);
	cr_assert_eq(pipe(scenario.pipe), 0);
	world_run(&world, scenario.body, &scenario, outcomes);
	close(scenario.pipe[0]);
	close(scenario.pipe[1]);
	for (int rank = 0; rank < 4; rank++)
		cr_expect_eq(outcomes[rank].status, scenario.killed[rank] ? 128 + SIGKILL : 0,
			"over %s: rank %d: %d: %s", transport, rank, outcomes[rank].status,
			outcomes[rank].text);
}

Test(many_comms, a_death_reaches_those_that_hold_the_rank_and_no_other, .timeout = 150)
{
	struct scenario scenario = { .body = lose_one, .killed = { [VICTIM] = true } };

	try_death("shm", scenario);
	try_death("tcp", scenario);
}

/* Rank 1 is stopped, and would have seen the death of rank 2. */
static int shrink_and_lose_one(struct rank_env *env)
{
	int32_t pids[4], own = getpid();
	rondo_comm *shrunk;

	TRY(rondo_all_gather(env->comm, &own, pids, 1, RONDO_I32, NULL));
	world_meet(env, env->size);
	if (env->rank == 1)
		raise(SIGSTOP);
	TRY(rondo_comm_set_timeout(env->comm, 3000));
	rondo_comm_revoke(env->comm, NULL);
	TRY(rondo_comm_shrink(env->comm, &shrunk));
	TRY(rondo_barrier(shrunk, NULL));
	world_meet(env, rondo_comm_size(shrunk));
	if (env->rank == 2)
		die(env->argument);
	EXPECT_ERROR(rondo_barrier(shrunk, NULL), RONDO_DIED, "rank 1 (");
	rondo_comm_destroy(shrunk);
	kill(pids[1], SIGKILL);
	return 0;
}

Test(many_comms, a_death_is_seen_past_a_stopped_rank_that_a_shrink_left_out, .timeout = 150)
{
	try_death("shm", (struct scenario){ .body = shrink_and_lose_one,
				 .killed = { [1] = true, [2] = true } });
}

#define TASKS_MOST 64

static int list_tasks(long tasks[TASKS_MOST])
{
	DIR *all = opendir("/proc/self/task");
	const struct dirent *task;
	int count = 0;

	while ((task = readdir(all)) && count < TASKS_MOST)
		if (task->d_name[0] != '.')
			tasks[count++] = strtol(task->d_name, NULL, 10);
	closedir(all);
	return count;
}

static bool is_in(const long *tasks, int count, long task)
{
	while (count > 0 && tasks[count - 1] != task)
		count--;
	return count > 0;
}

/* Threads of this rank wait for another rank's end: they are not those of then. */
static bool await_watch(const long *then, int then_count)
{
	int64_t deadline_ms = world_now_ms() + 10000;
	long now[TASKS_MOST];
	int fresh = 0;

	while (fresh < 2 && world_now_ms() < deadline_ms) {
		int count = list_tasks(now);

		fresh = 0;
		for (int i = 0; i < count; i++)
			fresh += !is_in(then, then_count, now[i]);
		sched_yield();
	}
	return fresh >= 2;
}

/* Rank 3, which watched over rank 0, goes first. */
static int lose_two(struct rank_env *env)
{
	const struct scenario *scenario = env->argument;
	rondo_comm *half;
	long tasks[TASKS_MOST];
	int err, count;

	TRY(rondo_comm_split(env->comm, env->rank % 2, 0, &half));
	TRY(rondo_barrier(half, NULL));
	/* The program's, the control thread, and two that wait for rank 3's end. */
	while ((count = list_tasks(tasks)) < 4 && env->rank == 2)
		sched_yield();
	TRY(rondo_barrier(env->comm, NULL));
	world_meet(env, env->size);
	if (env->rank == VICTIM && !scenario->first_leaves)
		die(scenario);
	if (env->rank == VICTIM || env->rank == 1) {
		rondo_comm_destroy(half);
		world_leave(env);
		return 0;
	}
	/* Until rank 3 has gone. */
	err = rondo_barrier(env->comm, NULL);
	if (err != RONDO_DIED && err != RONDO_LEFT)
		return world_report(env, "the barrier of all: %s", rondo_last_error());
	if (env->rank == 2 && !await_watch(tasks, count))
		return world_report(env, "it does not watch over rank 0");
	TRY(rondo_barrier(half, NULL));
	world_meet(env, rondo_comm_size(half));
	if (env->rank == 0)
		die(scenario);
	EXPECT_ERROR(rondo_barrier(half, NULL), RONDO_DIED, "rank 0 (");
	rondo_comm_destroy(half);
	return 0;
}

Test(many_comms, a_rank_is_watched_over_when_its_watcher_has_gone, .timeout = 120)
{
	struct scenario scenario = { .body = lose_two, .killed = { true, [VICTIM] = true } };

	try_death("shm", scenario);
	try_death("tcp", scenario);
	scenario.killed[VICTIM] = false;
	scenario.first_leaves = true;
	try_death("shm", scenario);
	try_death("tcp", scenario);
}
