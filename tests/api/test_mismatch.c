/* Calls that differ among the ranks are an error on each, which names the rank that differs. */
#include <criterion/criterion.h>
#include <string.h>

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
				.limit_ms = 15000 };

			cr_assert_eq(world_run(&world, differ, &difference, NULL), 0,
				"difference %d over %s", difference, transports[i]);
		}
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
