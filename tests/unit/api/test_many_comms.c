/* ctest label: threads */
/* Comms that are made from one comm: they share a control thread, and fail each for itself. */
#include <criterion/criterion.h>
#include <signal.h>
#include <unistd.h>

#include "control_ranks.h"
#include "world.h"

#define COPIES 20

/* ---- Threads -------------------------------------------------------------------------------- */

static int duplicate_often(struct rank_env *env)
{
	rondo_comm *copies[COPIES];
	int threads, sum;

	TRY(rondo_barrier(env->comm, NULL));
	threads = count_threads();
	for (int i = 0; i < COPIES; i++)
		TRY(rondo_comm_duplicate(env->comm, &copies[i]));
	for (int i = 0; i < COPIES; i++) {
		sum = 1 << env->rank;
		TRY(rondo_all_reduce(copies[i], &sum, &sum, 1, RONDO_I32, RONDO_SUM, NULL));
		if (sum != (1 << env->size) - 1)
			return world_report(env, "copy %d: %d", i, sum);
	}
	if (!env->world->threads && count_threads() != threads)
		return world_report(env, "%d threads, then %d", threads, count_threads());
	/* The first of them last, and the comm that they are made from before them. */
	TRY(rondo_comm_destroy(env->comm));
	env->comm = NULL;
	for (int i = COPIES - 1; i >= 0; i--)
		TRY(rondo_comm_destroy(copies[i]));
	return 0;
}

Test(many_comms, have_no_threads_of_their_own, .timeout = 120)
{
	struct world threads = { .size = 3, .threads = true };

	world_try(3, "shm", duplicate_often);
	world_try(3, "tcp", duplicate_often);
	world_try(4, "mixed", duplicate_often);
	cr_assert_eq(world_run(&threads, duplicate_often, NULL, NULL), 0);
}

/* ---- Deaths --------------------------------------------------------------------------------- */

#define VICTIM 3

/* The death is not seen by the end of its sockets: a child holds them. */
static void die(const int *pipe)
{
	char byte;

	if (_Fork() == 0) {
		close(pipe[1]);
		if (read(pipe[0], &byte, 1) <= 0)
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

/* The world ends before a missing heartbeat would show the death. */
static void try_death(const char *transport)
{
	struct world world = { .size = 4, .transport = transport, .limit_ms = 20000 };
	struct rank_outcome outcomes[WORLD_MAX];
	int ends[2];

	if (ONLY_THREADS)
		cr_skip_test("ranks are processes");
	cr_assert_eq(pipe(ends), 0);
	world_run(&world, lose_one, ends, outcomes);
	close(ends[0]);
	close(ends[1]);
	for (int rank = 0; rank < 4; rank++)
		cr_expect_eq(outcomes[rank].status, rank == VICTIM ? 128 + SIGKILL : 0,
			"over %s: rank %d: %d: %s", transport, rank, outcomes[rank].status,
			outcomes[rank].text);
}

Test(many_comms, a_death_reaches_those_that_hold_the_rank_and_no_other, .timeout = 60)
{
	try_death("shm");
	try_death("tcp");
}
