/* Calls that differ among the ranks are an error on each, which names the rank that differs. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_collective.h"
#include "plan/collective.h"
#include "world.h"

static const char *const transports[] = { "shm", "tcp", "mixed" };

/* ---- Calls that differ --------------------------------------------------------------------- */

/* The difference of rank 2's call. */
enum difference { OPERATION, COUNT, TYPE, ROOT, COLLECTIVE, LONGER };

static float values[20000], longer[4 * 20000];

static int call_differently(struct rank_env *env, enum difference difference)
{
	bool odd = env->rank == 2;
	rondo_comm *comm = env->comm;

	switch (difference) {
	case OPERATION:
		return rondo_all_reduce(
			comm, values, values, 64, RONDO_F32, odd ? RONDO_MAX : RONDO_SUM, NULL);
	case COUNT:
		return rondo_all_reduce(
			comm, values, values, odd ? 65 : 64, RONDO_F32, RONDO_SUM, NULL);
	case TYPE:
		return rondo_all_reduce(
			comm, values, values, 64, odd ? RONDO_I32 : RONDO_F32, RONDO_SUM, NULL);
	case ROOT:
		return rondo_broadcast(comm, values, values, 64, RONDO_F32, odd ? 1 : 0, NULL);
	case COLLECTIVE:
		return odd ? rondo_barrier(comm, NULL)
			   : rondo_all_reduce(comm, values, values, 64, RONDO_F32, RONDO_SUM, NULL);
	case LONGER:
		return rondo_all_gather(comm, values, longer, odd ? 20000 : 0, RONDO_F32, NULL);
	}
	return 0;
}

/* A rank may finish its part before any rank can find the difference: then its next call, or
   destroy, returns the error. */
static int differ(struct rank_env *env)
{
	const enum difference *difference = env->argument;
	int err = env->create_error;

	if (!err)
		err = rondo_barrier(env->comm, NULL);
	if (!err)
		err = call_differently(env, *difference);
	if (!err)
		err = rondo_barrier(env->comm, NULL);
	if (!err) {
		err = rondo_comm_destroy(env->comm);
		env->comm = NULL;
	}
	return world_expect(env, "call", err, RONDO_MISMATCH, "rank 2");
}

Test(failure, calls_that_differ_are_an_error_on_every_rank_and_name_the_odd_one, .timeout = 120)
{
	for (size_t i = 0; i < sizeof(transports) / sizeof(*transports); i++) {
		for (enum difference difference = OPERATION; difference <= LONGER; difference++) {
			struct world world = { .size = 4,
				.transport = transports[i],
				.timeout_ms = 3000,
				.limit_ms = 20000 };

			cr_assert_eq(world_run(&world, differ, &difference, NULL), 0,
				"difference %d over %s", difference, transports[i]);
		}
	}
}

/* ---- With RONDO_CHECK=1 ---------------------------------------------------------------------- */

/* Where the calls are made. */
enum place { IN_THE_CALLER, IN_A_GROUP, ON_A_STREAM, PLACES };

struct checked_trial {
	enum rd_collective collective;
	enum difference difference;
	enum place place;
	const char *words; /* of rank 2's call, after its number */
};

/* Rank 2's collective. */
static enum rd_collective odd_one(const struct checked_trial *trial)
{
	if (trial->difference != COLLECTIVE)
		return trial->collective;
	return trial->collective == RD_BARRIER ? RD_ALL_REDUCE : RD_BARRIER;
}

/* A collective of 64 f32 sum root 0; rank 2's differs. */
static int call_checked(
	struct rank_env *env, const struct checked_trial *trial, rondo_stream *stream)
{
	bool odd = env->rank == 2;
	enum difference difference = odd ? trial->difference : COLLECTIVE;

	return call_collective(env->comm, odd ? odd_one(trial) : trial->collective, values, longer,
		difference == COUNT ? 65 : 64, difference == TYPE ? RONDO_I32 : RONDO_F32,
		difference == OPERATION ? RONDO_MAX : RONDO_SUM, difference == ROOT ? 1 : 0,
		stream);
}

/* The error comes from the call itself, or from the end of its group or stream. */
static int differ_checked(struct rank_env *env)
{
	const struct checked_trial *trial = env->argument;
	rondo_stream *stream = NULL;
	char words[80];
	int err;

	TRY(rondo_barrier(env->comm, NULL));
	if (trial->place == IN_A_GROUP) {
		TRY(rondo_group_start());
		TRY(rondo_barrier(env->comm, NULL));
	}
	if (trial->place == ON_A_STREAM)
		TRY(rondo_stream_create(&stream));
	err = call_checked(env, trial, stream);
	if (!err && trial->place == IN_A_GROUP)
		err = rondo_group_end();
	if (!err && stream)
		err = rondo_stream_synchronize(stream);
	snprintf(words, sizeof(words), "rank 2 %s #%d%s", rd_collective_name(odd_one(trial)),
		trial->place == IN_A_GROUP ? 3 : 2, trial->words);
	if (world_expect(env, "call", err, RONDO_MISMATCH, words) ||
		world_expect(env, "call", err, RONDO_MISMATCH, "ranks made different calls: rank "))
		return 1;
	if (stream)
		rondo_stream_destroy(stream);
	return 0;
}

static void expect_at_the_call(struct checked_trial trial)
{
	static int trials;
	struct world world = { .size = 4,
		.transport = transports[trials / PLACES % 2],
		.threads = ONLY_THREADS,
		.timeout_ms = 20000 };

	trial.place = trials++ % PLACES;
	cr_assert_eq(world_run(&world, differ_checked, &trial, NULL), 0,
		"%s, difference %d, place %d, over %s", rd_collective_name(trial.collective),
		trial.difference, trial.place, world.transport);
}

Test(failure, calls_that_differ_are_found_at_the_call_when_calls_are_checked, .timeout = 240)
{
	setenv("RONDO_CHECK", "1", 1);
	for (enum rd_collective c = 0; c < RD_COLLECTIVE_COUNT; c++) {
		bool has_count = c != RD_BARRIER, reduces = rd_collective_reduces(c) && has_count;

		if (c == RD_TRANSFER)
			continue;
		expect_at_the_call((struct checked_trial){ c, COLLECTIVE, 0, "" });
		if (has_count)
			expect_at_the_call((struct checked_trial){ c, COUNT, 0, " of 65 f32" });
		if (has_count)
			expect_at_the_call((struct checked_trial){ c, TYPE, 0, " of 64 i32" });
		if (reduces)
			expect_at_the_call(
				(struct checked_trial){ c, OPERATION, 0, " of 64 f32 max" });
		if (rd_collective_has_root(c))
			expect_at_the_call((struct checked_trial){ c, ROOT, 0,
				reduces ? " of 64 f32 sum root 1" : " of 64 f32 root 1" });
	}
}

/* Messages never show this: the number of an operation beyond its bits in the signature. */
static void keep_first(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument)
{
	(void)b, (void)argument;
	memmove(into, a, count * rondo_type_size(type));
}

static int combine_differently(struct rank_env *env)
{
	rondo_op ops[65];

	for (int i = 0; i < 65; i++)
		TRY(rondo_op_create(env->comm, &ops[i], keep_first, 0, NULL));
	EXPECT_ERROR(rondo_all_reduce(env->comm, values, values, 4, RONDO_F32,
			     ops[env->rank == 1 ? 64 : 0], NULL),
		RONDO_MISMATCH, "with operation #1, rank 1 with #65");
	return 0;
}

Test(failure, operations_that_differ_are_found_when_calls_are_checked, .timeout = 60)
{
	setenv("RONDO_CHECK", "1", 1);
	world_try(3, "shm", combine_differently);
}

/* ---- Calls that the library makes itself ---------------------------------------------------- */

static const char *const makers[] = { "rondo_comm_split", "rondo_comm_duplicate",
	"rondo_comm_grow" };

static int make_alone(struct rank_env *env)
{
	const int *maker = env->argument;
	rondo_comm *made = NULL;
	char words[80];
	int err;

	TRY(rondo_barrier(env->comm, NULL));
	if (env->rank != 2) {
		err = rondo_all_reduce(env->comm, values, values, 64, RONDO_F32, RONDO_SUM, NULL);
		return world_expect(
			env, "call", err, RONDO_MISMATCH, "rank 2 all_reduce #2 of 1 i32 max");
	}
	if (*maker == 0)
		err = rondo_comm_split(env->comm, 0, 0, &made);
	else if (*maker == 1)
		err = rondo_comm_duplicate(env->comm, &made);
	else
		err = rondo_comm_grow(env->comm, 4, NULL, &made);
	snprintf(words, sizeof(words), "; rank 2 was in %s()", makers[*maker]);
	return world_expect(env, "call", err, RONDO_MISMATCH, words);
}

Test(failure, a_rank_alone_in_a_split_says_so, .timeout = 60)
{
	setenv("RONDO_CHECK", "1", 1);
	for (int maker = 0; maker < 3; maker++) {
		struct world world = { .size = 3, .transport = "shm", .timeout_ms = 20000 };

		cr_assert_eq(world_run(&world, make_alone, &maker, NULL), 0, "%s", makers[maker]);
	}
}

/* ---- Roots that differ --------------------------------------------------------------------- */

/* Two ranks are root: each waits for the other, and no message shows that. */
static int be_root_as_well(struct rank_env *env)
{
	int root = env->rank == 1 ? 1 : 0;
	int err = env->create_error;

	if (!err)
		err = rondo_barrier(env->comm, NULL);
	if (!err)
		err = rondo_reduce(env->comm, values, values, 4, RONDO_F32, RONDO_SUM, root, NULL);
	/* A rank that only sends has finished, and waits in its next call. */
	if (!err)
		err = rondo_barrier(env->comm, NULL);
	if (!err || !strstr(rondo_last_error(), "rank 0 reduce #2 of 4 f32 sum root 0"))
		return world_report(env, "%s: %s", rondo_error_name(err), rondo_last_error());
	return world_expect(
		env, "call", err, RONDO_MISMATCH, "rank 1 reduce #2 of 4 f32 sum root 1");
}

Test(failure, two_roots_of_a_reduce_are_a_mismatch, .timeout = 90)
{
	for (int size = 2; size <= 3; size++) {
		struct world world = {
			.size = size, .transport = "shm", .timeout_ms = 2000, .limit_ms = 20000
		};

		cr_assert_eq(world_run(&world, be_root_as_well, NULL, NULL), 0);
	}
}
