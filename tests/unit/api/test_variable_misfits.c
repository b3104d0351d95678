/* Counts that do not fit each other, and calls of the v-collectives that are refused. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum misfit {
	GATHERED,
	SCATTERED,
	EXCHANGED,
	AT_THE_ROOT,
	FROM_THE_ROOT,
	NOT_VARIED,
	OTHER_ROOT,
	LISTED,
	LISTS_EXCHANGED
};

/* Rank 1 passes another length for one block. */
static int differ(struct rank_env *env)
{
	enum misfit misfit = *(enum misfit *)env->argument;
	size_t counts[3] = { 4, 5, 6 }, same[3] = { 5, 5, 5 };
	int in[64] = { 0 }, out[64], err = 0;
	const void *send[3] = { in, in + 8, in + 16 };
	void *recv[3] = { out + 16, out + 8, out };
	bool odd_one = env->rank == 1;

	counts[2] += odd_one;
	switch (misfit) {
	case GATHERED:
		err = rondo_all_gather_v(env->comm, in, out, counts, NULL, RONDO_I32, NULL);
		break;
	case SCATTERED:
		err = rondo_reduce_scatter_v(
			env->comm, in, out, counts, RONDO_I32, RONDO_SUM, NULL);
		break;
	case EXCHANGED:
		same[2] += odd_one;
		err = rondo_all_to_all_v(env->comm, in, same, NULL, out, (size_t[]){ 5, 5, 5 },
			NULL, RONDO_I32, NULL);
		break;
	case AT_THE_ROOT:
		err = rondo_gather_v(
			env->comm, in, odd_one ? 6 : 5, out, same, NULL, RONDO_I32, 0, NULL);
		break;
	case FROM_THE_ROOT:
		err = rondo_scatter_v(
			env->comm, in, same, NULL, out, odd_one ? 6 : 5, RONDO_I32, 0, NULL);
		break;
	case NOT_VARIED:
		err = odd_one ? rondo_all_gather(env->comm, in, out, 5, RONDO_I32, NULL)
			      : rondo_all_gather_v(env->comm, in, out, same, NULL, RONDO_I32, NULL);
		break;
	case OTHER_ROOT:
		err = rondo_gather_v(
			env->comm, in, 5, out, same, NULL, RONDO_I32, odd_one ? 1 : 0, NULL);
		break;
	case LISTED:
		err = rondo_all_gather_list(env->comm, in, recv, counts, RONDO_I32, NULL);
		break;
	case LISTS_EXCHANGED:
		same[2] += odd_one;
		err = rondo_all_to_all_list(
			env->comm, send, same, recv, (size_t[]){ 5, 5, 5 }, RONDO_I32, NULL);
		break;
	}
	/* A rank that only sends gets the error at the next call, unless calls are checked. */
	if (!err && !getenv("RONDO_CHECK"))
		err = rondo_barrier(env->comm, NULL);
	world_report(env, "%s", rondo_last_error());
	return err == RONDO_MISMATCH ? 0 : 1;
}

static void expect_misfit(enum misfit misfit, const char *one, const char *other)
{
	static const char *const transports[] = { "shm", "tcp" };
	struct rank_outcome outcomes[WORLD_MAX];

	for (int t = 0; t < 2; t++) {
		struct world set = { .size = 3, .transport = transports[t], .timeout_ms = 20000 };

		cr_assert_eq(world_run(&set, differ, &misfit, outcomes), 0);
		for (int i = 0; i < 3; i++) {
			cr_assert(strstr(outcomes[i].text, one), "%s: %s", one, outcomes[i].text);
			cr_assert(
				strstr(outcomes[i].text, other), "%s: %s", other, outcomes[i].text);
			cr_assert_str_eq(outcomes[i].text, outcomes[0].text);
		}
	}
}

Test(variable, counts_that_differ_are_an_error_everywhere, .timeout = 120)
{
	expect_misfit(GATHERED, "all_gather_v #1: rank ", "rank 1");
	expect_misfit(SCATTERED, "reduce_scatter_v #1: rank ", "rank 1");
	expect_misfit(LISTED, "all_gather_v #1: rank ", "rank 1");
}

/*
 * Counts decide the algorithm, too: the ring for long blocks, pat for short ones. Then messages of
 * different blocks meet, and only the digest of all counts shows the cause.
 */
static int take_another_way(struct rank_env *env)
{
	enum { MANY = 4 << 20 };
	static int in[MANY + 64], out[MANY + 64];
	size_t counts[4] = { 4, 5, 6, env->rank == 1 ? MANY : 7 };
	int err = rondo_reduce_scatter_v(env->comm, in, out, counts, RONDO_I32, RONDO_SUM, NULL);

	world_report(env, "%s", rondo_last_error());
	return err == RONDO_MISMATCH ? 0 : 1;
}

Test(variable, counts_that_lead_to_another_algorithm_are_the_reason, .timeout = 60)
{
	struct world set = { .size = 4, .transport = "shm", .timeout_ms = 20000 };
	struct rank_outcome outcomes[WORLD_MAX];

	setenv("RONDO_REPRODUCIBLE", "1", 1);
	cr_expect_eq(world_run(&set, take_another_way, NULL, outcomes), 0);
	for (int i = 0; i < 4; i++)
		cr_expect(strstr(outcomes[i].text, "reduce_scatter_v #1: rank ") &&
				  strstr(outcomes[i].text, " were given different counts"),
			"%s", outcomes[i].text);
}

Test(variable, a_pair_that_disagrees_is_named_with_its_numbers, .timeout = 120)
{
	expect_misfit(EXCHANGED, "rank 1 sends 6 i32 to rank 2", "which expects 5");
	expect_misfit(LISTS_EXCHANGED, "rank 1 sends 6 i32 to rank 2", "which expects 5");
	expect_misfit(AT_THE_ROOT, "rank 1 sends 6 i32 to rank 0", "which expects 5");
	expect_misfit(FROM_THE_ROOT, "rank 0 sends 5 i32 to rank 1", "which expects 6");
}

Test(variable, blocks_of_one_length_and_of_many_are_different_calls, .timeout = 120)
{
	expect_misfit(NOT_VARIED, "rank 1 all_gather #1 of 5 i32", "all_gather_v #1 of i32");
}

Test(variable, misfits_are_found_at_the_call_when_calls_are_checked, .timeout = 240)
{
	setenv("RONDO_CHECK", "1", 1);
	expect_misfit(GATHERED, "all_gather_v #1: rank ", "were given different counts");
	expect_misfit(SCATTERED, "reduce_scatter_v #1: rank ", "rank 1");
	expect_misfit(EXCHANGED, "rank 1 sends 6 i32 to rank 2", "which expects 5");
	expect_misfit(AT_THE_ROOT, "rank 1 sends 6 i32 to rank 0", "which expects 5");
	expect_misfit(FROM_THE_ROOT, "rank 0 sends 5 i32 to rank 1", "which expects 6");
	expect_misfit(NOT_VARIED, "rank 1 all_gather #1 of 5 i32", "all_gather_v #1 of i32");
	expect_misfit(OTHER_ROOT, "rank 1 gather_v #1 of i32 root 1", "gather_v #1 of i32 root 0");
}

static int call_wrongly(struct rank_env *env)
{
	rondo_comm *comm = env->comm;
	size_t counts[2] = { 4, 4 }, huge[2] = { 1, SIZE_MAX / 4 }, far[2] = { 0, SIZE_MAX / 8 };
	size_t apart[2] = { 0, 6 }, close[2] = { 3, 0 }, five[2] = { 5, 5 };
	int data[64] = { 0 }, more[64];
	void *gathered;

	EXPECT_ERROR(rondo_all_gather_v(NULL, data, more, counts, NULL, RONDO_I32, NULL),
		RONDO_INVALID, "comm is NULL");
	EXPECT_ERROR(rondo_all_gather_v(comm, data, more, NULL, NULL, RONDO_I32, NULL),
		RONDO_INVALID, "counts is NULL");
	EXPECT_ERROR(rondo_all_gather_v(comm, data, NULL, counts, NULL, RONDO_I32, NULL),
		RONDO_INVALID, "recv is NULL");
	EXPECT_ERROR(rondo_all_gather_v(comm, data, more, huge, NULL, RONDO_I32, NULL),
		RONDO_INVALID, "too large");
	EXPECT_ERROR(rondo_all_gather_v(comm, data, more, counts, far, RONDO_I32, NULL),
		RONDO_INVALID, "too large");
	EXPECT_ERROR(rondo_all_gather_v(comm, data + 1, data, counts, NULL, RONDO_I32, NULL),
		RONDO_INVALID, "overlap");
	EXPECT_ERROR(rondo_all_gather_v(comm, data, more, counts, close, RONDO_I32, NULL),
		RONDO_INVALID, "blocks 1 and 0 of recv overlap");
	EXPECT_ERROR(rondo_all_gather_v(comm, data, more, counts, NULL, 77, NULL), RONDO_INVALID,
		"77 is no type");
	EXPECT_ERROR(rondo_reduce_scatter_v(comm, data, more, counts, RONDO_I32, 77, NULL),
		RONDO_INVALID, "77 is no operation");
	EXPECT_ERROR(
		rondo_all_to_all_v(comm, data, counts, NULL, data, counts, apart, RONDO_I32, NULL),
		RONDO_INVALID, "overlap");
	EXPECT_ERROR(
		rondo_all_to_all_v(comm, data, NULL, NULL, more, counts, NULL, RONDO_I32, NULL),
		RONDO_INVALID, "counts is NULL");
	EXPECT_ERROR(
		rondo_all_to_all_v(comm, data, counts, NULL, more, five, NULL, RONDO_I32, NULL),
		RONDO_INVALID, "sends 4 i32 to itself, and expects 5");
	EXPECT_ERROR(rondo_gather_v(comm, data, 5, more, counts, NULL, RONDO_I32, env->rank, NULL),
		RONDO_INVALID, "sends 5 i32 to itself, and expects 4");
	EXPECT_ERROR(rondo_scatter_v(comm, data, counts, NULL, more, 5, RONDO_I32, env->rank, NULL),
		RONDO_INVALID, "sends 4 i32 to itself, and expects 5");
	EXPECT_ERROR(rondo_gather_v(comm, data, 4, more, counts, NULL, RONDO_I32, 2, NULL),
		RONDO_INVALID, "rank 2 is not in 0..1");
	gathered = data;
	EXPECT_ERROR(rondo_gather_bytes(comm, NULL, 4, &gathered, counts, 0), RONDO_INVALID,
		"send is NULL");
	if (gathered)
		return world_report(env, "recv is not NULL after an error");
	if (env->rank == 0)
		EXPECT_ERROR(rondo_gather_bytes(comm, data, 4, NULL, counts, 0), RONDO_INVALID,
			"recv is NULL");
	gathered = data;
	EXPECT_ERROR(rondo_all_gather_bytes(comm, NULL, 4, &gathered, counts), RONDO_INVALID,
		"all_gather_bytes: send is NULL");
	if (gathered)
		return world_report(env, "recv is not NULL after an error");
	EXPECT_ERROR(
		rondo_all_gather_bytes(comm, data, 4, NULL, counts), RONDO_INVALID, "recv is NULL");
	EXPECT_ERROR(rondo_all_gather_bytes(comm, data, 4, &gathered, NULL), RONDO_INVALID,
		"sizes is NULL");
	EXPECT_ERROR(rondo_all_gather_bytes(NULL, data, 4, &gathered, counts), RONDO_INVALID,
		"comm is NULL");
	TRY(rondo_group_start());
	EXPECT_ERROR(
		rondo_gather_bytes(comm, data, 4, &gathered, counts, 0), RONDO_INVALID, "no group");
	EXPECT_ERROR(rondo_group_end(), RONDO_INVALID, "no group");
	TRY(rondo_group_start());
	EXPECT_ERROR(rondo_all_gather_bytes(comm, data, 4, &gathered, counts), RONDO_INVALID,
		"no group");
	EXPECT_ERROR(rondo_group_end(), RONDO_INVALID, "no group");
	/* The refused calls have harmed nothing. */
	TRY(rondo_all_gather_v(comm, data, more, counts, NULL, RONDO_I32, NULL));
	return 0;
}

Test(variable, wrong_arguments_are_refused_and_harm_nothing, .timeout = 60)
{
	world_try(2, NULL, call_wrongly);
}
