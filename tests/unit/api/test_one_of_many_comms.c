/* ctest label: threads */
/* One of many comms fails, or is never made: the comms that it concerns say so, and all others go
   on. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "many_comms.h"

#define COMMS 60
#define VICTIM 2

static int place_of(const struct made_comm *made, int rank)
{
	int place = 0;

	while (place < made->size && made->ranks[place] != rank)
		place++;
	return place;
}

/* Calls on all of these, in their order, give exact results. */
static int use_all(struct rank_env *env, const struct many_comms *many, uint64_t number)
{
	for (int i = 0; i < many->count; i++)
		if (many->list[i].comm &&
			made_comm_use(env, &many->list[i], number * COMMS + (uint64_t)i, NULL))
			return 1;
	return 0;
}

/* ---- A death --------------------------------------------------------------------------------- */

static int expect_death(struct rank_env *env, const struct made_comm *made)
{
	char name[32];
	int err;

	snprintf(name, sizeof(name), "rank %d (", place_of(made, VICTIM));
	err = rondo_barrier(made->comm, NULL);
	return world_expect(env, "the barrier", err, RONDO_DIED, name);
}

static int lose_one(struct rank_env *env)
{
	struct many_comms many = { 0 };
	struct draw from = draw_from(4, 0);
	int failed = many_comms_make(env, &many, COMMS, &from);

	if (!failed)
		failed = use_all(env, &many, 0);
	world_meet(env, env->size);
	if (!failed && env->rank == VICTIM)
		raise(SIGKILL);
	for (int i = 0; i < many.count && !failed; i++) {
		const struct made_comm *made = &many.list[i];

		if (!made->comm)
			continue;
		if (made_comm_has(made, VICTIM))
			failed = expect_death(env, made);
		else
			failed = made_comm_use(env, made, (uint64_t)i, NULL);
	}
	/* Once all those have failed. */
	for (int i = 0; i < many.count && !failed; i++)
		if (many.list[i].comm && !made_comm_has(&many.list[i], VICTIM))
			failed = made_comm_use(env, &many.list[i], (uint64_t)i + 1, NULL);
	many_comms_free(&many);
	return failed;
}

static void try_death(const char *transport)
{
	struct world world = { .size = 4, .transport = transport, .quiet = true };
	struct rank_outcome outcomes[WORLD_MAX];

	if (ONLY_THREADS)
		cr_skip_test("ranks are processes");
	world_run(&world, lose_one, NULL, outcomes);
	for (int rank = 0; rank < 4; rank++)
		cr_expect_eq(outcomes[rank].status, rank == VICTIM ? 128 + SIGKILL : 0,
			"over %s: rank %d: %d: %s", transport, rank, outcomes[rank].status,
			outcomes[rank].text);
}

Test(one_of_many_comms, with_a_rank_that_died_fails_with_its_name, .timeout = 60)
{
	try_death("shm");
	try_death("tcp");
	try_death("mixed");
}

/* ---- Failures of calls ----------------------------------------------------------------------- */

/* It befalls one comm. Its ranks return as a body does. */
typedef int (*incident)(struct rank_env *env, const struct made_comm *made);

static int revoke_one(struct rank_env *env, const struct made_comm *made)
{
	if (rondo_comm_rank(made->comm) == 1)
		TRY(rondo_comm_revoke(made->comm, "no more of this"));
	EXPECT_ERROR(rondo_barrier(made->comm, NULL), RONDO_REVOKED, "no more of this");
	return 0;
}

static int misfit(struct rank_env *env, const struct made_comm *made)
{
	int64_t in[2] = { 0 }, out[2];
	int rank = rondo_comm_rank(made->comm);

	EXPECT_ERROR(rondo_all_reduce(
			     made->comm, in, out, rank == 1 ? 2 : 1, RONDO_I64, RONDO_SUM, NULL),
		RONDO_MISMATCH, "rank 1 all_reduce #");
	return 0;
}

/* Rank 1 comes once the others have failed. */
static int be_late(struct rank_env *env, const struct made_comm *made)
{
	int64_t end_ms = world_now_ms() + 20000;

	TRY(rondo_comm_set_timeout(made->comm, 2000));
	while (rondo_comm_rank(made->comm) == 1 && !rondo_comm_error(made->comm) &&
		world_now_ms() < end_ms)
		poll(NULL, 0, 1);
	EXPECT_ERROR(rondo_barrier(made->comm, NULL), RONDO_TIMEOUT, "rank 1 (");
	return 0;
}

static const incident incidents[] = { revoke_one, misfit, be_late };

#define INCIDENTS (int)(sizeof(incidents) / sizeof(*incidents))

/* The next one of two ranks or more. */
static int next_comm(const struct many_comms *many, int after)
{
	do
		after++;
	while (after < many->count && many->list[after].size < 2);
	return after;
}

static int go_on(struct rank_env *env)
{
	struct many_comms many = { 0 };
	struct draw from = draw_from(5, 0);
	int failed = many_comms_make(env, &many, COMMS, &from), comm = -1;

	for (int i = 0; i < INCIDENTS && !failed; i++) {
		comm = next_comm(&many, comm);
		world_meet(env, env->size);
		if (many.list[comm].comm)
			failed = incidents[i](env, &many.list[comm]);
		rondo_comm_destroy(many.list[comm].comm);
		many.list[comm].comm = NULL;
		for (int times = 0; times < 3 && !failed; times++)
			failed = use_all(env, &many, (uint64_t)times);
	}
	many_comms_free(&many);
	return failed;
}

Test(one_of_many_comms, that_fails_leaves_the_others_as_they_are, .timeout = 60)
{
	static const char *const transports[] = { "shm", "tcp", "mixed" };

	for (int i = 0; i < 3; i++) {
		struct world world = {
			.size = 4, .transport = transports[i], .threads = ONLY_THREADS
		};

		cr_expect_eq(world_run(&world, go_on, NULL, NULL), 0, "%s", transports[i]);
	}
}

/* ---- A group that is never made ------------------------------------------------------------- */

#define INIT_MS "4000"
#define LATE_MS 20000

struct waiting {
	pthread_t thread;
	struct rank_env *env;
	rondo_comm *all;
	int failed;
	_Atomic bool ended;
};

/* Ranks 1 and 2 do not call. */
static int make_in_vain(struct rank_env *env, rondo_comm *all)
{
	const int ranks[] = { 3, 2, 0, 1 };
	int64_t begin_ms = world_now_ms();
	rondo_comm *group;

	EXPECT_ERROR(rondo_comm_create_group(all, ranks, 4, 7, &group), RONDO_TIMEOUT,
		"the comm of ranks 3, 2, 0, 1: ranks 1 and 3 of 4 have not come");
	if (world_now_ms() - begin_ms > LATE_MS)
		return world_report(env, "it waited for %d ms", (int)(world_now_ms() - begin_ms));
	return 0;
}

static void *wait_for_members(void *argument)
{
	struct waiting *waiting = argument;

	waiting->failed = make_in_vain(waiting->env, waiting->all);
	atomic_store(&waiting->ended, true);
	return NULL;
}

/* Uses all, and makes groups, until both have given up. */
static int use_meanwhile(
	struct rank_env *env, struct many_comms *many, const struct waiting *waiting, bool calls)
{
	const int pair[2] = { env->rank & 1, 2 | (env->rank & 1) };
	int32_t ended = 0, rounds = 0;
	rondo_comm *group, *all = many->list[0].comm;
	int64_t end_ms = world_now_ms() + LATE_MS;

	for (; ended < 2; rounds++) {
		if (use_all(env, many, (uint64_t)rounds))
			return 1;
		TRY(rondo_comm_create_group(all, pair, 2, rounds, &group));
		TRY(rondo_barrier(group, NULL));
		TRY(rondo_comm_destroy(group));
		ended = calls && atomic_load(&waiting->ended);
		TRY(rondo_all_reduce(all, &ended, &ended, 1, RONDO_I32, RONDO_SUM, NULL));
		if (world_now_ms() > end_ms)
			return world_report(env, "it never ends");
	}
	return rounds > 1 ? 0 : world_report(env, "it ended at once");
}

static int go_on_beside(struct rank_env *env)
{
	struct many_comms many = { 0 };
	struct draw from = draw_from(6, 0);
	struct waiting waiting = { .env = env };
	bool calls = env->rank == 0 || env->rank == 3;
	int failed = many_comms_make(env, &many, COMMS, &from);

	waiting.all = many.list[0].comm;
	if (!failed && calls && pthread_create(&waiting.thread, NULL, wait_for_members, &waiting))
		failed = world_report(env, "no thread");
	if (failed) {
		many_comms_free(&many);
		return failed;
	}
	failed = use_meanwhile(env, &many, &waiting, calls);
	if (calls)
		pthread_join(waiting.thread, NULL);
	failed |= waiting.failed;
	many_comms_free(&many);
	return failed;
}

Test(one_of_many_comms, that_some_never_make_ends_with_their_names, .timeout = 60)
{
	struct world world = { .size = 4, .threads = ONLY_THREADS };

	setenv("RONDO_INIT_TIMEOUT_MS", INIT_MS, 1);
	cr_assert_eq(world_run(&world, go_on_beside, NULL, NULL), 0);
}
