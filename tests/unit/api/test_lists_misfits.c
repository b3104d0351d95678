/* Lists of blocks that are refused, and lengths that do not fit those of other ranks. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static int call_wrongly(struct rank_env *env)
{
	rondo_comm *comm = env->comm;
	int data[64] = { 0 }, more[64], other = 1 - env->rank;
	size_t counts[2] = { 4, 4 }, none[2] = { 0, 0 }, huge[2] = { 4, SIZE_MAX / 4 };
	size_t five[2] = { 5, 5 };
	const void *send[2] = { data, data + 8 }, *same[2] = { data, data }, *gone[2] = { NULL };
	void *recv[2] = { more + 8, more }, *close[2] = { more + 3, more }, *part[2] = { more };
	void *around[2] = { data + 32, data + 32 };

	EXPECT_ERROR(rondo_all_gather_list(NULL, data, recv, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: comm is NULL");
	EXPECT_ERROR(rondo_all_gather_list(comm, data, recv, NULL, RONDO_I32, NULL), RONDO_INVALID,
		"all_gather_list: counts is NULL");
	EXPECT_ERROR(rondo_all_gather_list(comm, data, NULL, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: recv is NULL");
	EXPECT_ERROR(rondo_all_gather_list(comm, data, part, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: recv[1] is NULL");
	EXPECT_ERROR(rondo_all_gather_list(comm, NULL, recv, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: send is NULL");
	EXPECT_ERROR(rondo_all_gather_list(comm, data, recv, huge, RONDO_I32, NULL), RONDO_INVALID,
		"all_gather_list: the counts are too large");
	EXPECT_ERROR(rondo_all_gather_list(comm, data, close, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: blocks 1 and 0 of recv overlap");
	EXPECT_ERROR(rondo_all_gather_list(comm, more + 7, recv, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: send and recv overlap");
	/* Another rank's block is no place for this one's. */
	EXPECT_ERROR(rondo_all_gather_list(comm, recv[other], recv, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_gather_list: send and recv overlap");
	EXPECT_ERROR(rondo_all_gather_list(comm, data, recv, counts, 77, NULL), RONDO_INVALID,
		"all_gather_list: 77 is no type");
	EXPECT_ERROR(
		rondo_reduce_scatter_list(comm, gone, more, counts, RONDO_I32, RONDO_SUM, NULL),
		RONDO_INVALID, "reduce_scatter_list: send[0] is NULL");
	EXPECT_ERROR(
		rondo_reduce_scatter_list(comm, send, data + 6, counts, RONDO_I32, RONDO_SUM, NULL),
		RONDO_INVALID, "reduce_scatter_list: send and recv overlap");
	EXPECT_ERROR(rondo_all_to_all_list(comm, send, counts, around, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_to_all_list: blocks 0 and 1 of recv overlap");
	EXPECT_ERROR(rondo_all_to_all_list(comm, send, counts, (void *[]){ data + 8, data }, counts,
			     RONDO_I32, NULL),
		RONDO_INVALID, "all_to_all_list: send and recv overlap");
	EXPECT_ERROR(rondo_all_to_all_list(comm, send, NULL, recv, counts, RONDO_I32, NULL),
		RONDO_INVALID, "all_to_all_list: counts is NULL");
	EXPECT_ERROR(rondo_all_to_all_list(comm, send, counts, recv, five, RONDO_I32, NULL),
		RONDO_INVALID, "sends 4 i32 to itself, and expects 5");
	EXPECT_ERROR(rondo_gather_list(comm, data, 4, recv, counts, RONDO_I32, 2, NULL),
		RONDO_INVALID, "gather_list: rank 2 is not in 0..1");
	EXPECT_ERROR(rondo_scatter_list(comm, NULL, counts, data, 4, RONDO_I32, env->rank, NULL),
		RONDO_INVALID, "scatter_list: send is NULL");
	/* The refused calls have harmed nothing, and blocks of send may be one. */
	TRY(rondo_all_gather_list(comm, data, recv, counts, RONDO_I32, NULL));
	TRY(rondo_all_to_all_list(comm, same, counts, recv, counts, RONDO_I32, NULL));
	TRY(rondo_all_to_all_list(
		comm, gone, none, (void *[]){ NULL, NULL }, none, RONDO_I32, NULL));
	return 0;
}

Test(lists, wrong_arguments_are_refused_and_harm_nothing, .timeout = 60)
{
	world_try(2, NULL, call_wrongly);
}

/* ---- Lengths that differ between ranks ------------------------------------------------------ */

/* Rank 1 passes another length for one block. */
static int differ(struct rank_env *env)
{
	bool gathers = *(bool *)env->argument, odd_one = env->rank == 1;
	size_t counts[3] = { 4, 5, odd_one ? 7 : 6 }, same[3] = { 5, 5, 5 };
	size_t sent[3] = { 5, 5, odd_one ? 6 : 5 };
	int in[64] = { 0 }, out[64], err;
	const void *send[3] = { in, in + 8, in + 16 };
	void *recv[3] = { out + 16, out + 8, out };

	if (gathers)
		err = rondo_all_gather_list(env->comm, in, recv, counts, RONDO_I32, NULL);
	else
		err = rondo_all_to_all_list(env->comm, send, sent, recv, same, RONDO_I32, NULL);
	/* A rank that only sends gets the error at the next call. */
	if (!err)
		err = rondo_barrier(env->comm, NULL);
	world_report(env, "%s", rondo_last_error());
	return err == RONDO_MISMATCH ? 0 : 1;
}

static void expect_misfit(bool gathers, const char *one, const char *other)
{
	static const char *const transports[] = { "shm", "tcp" };
	struct rank_outcome outcomes[WORLD_MAX];

	for (int t = 0; t < 2; t++) {
		struct world set = { .size = 3, .transport = transports[t], .timeout_ms = 20000 };

		cr_assert_eq(world_run(&set, differ, &gathers, outcomes), 0);
		for (int i = 0; i < 3; i++)
			cr_assert(strstr(outcomes[i].text, one) && strstr(outcomes[i].text, other),
				"%s, %s: %s", one, other, outcomes[i].text);
	}
}

Test(lists, lengths_that_differ_name_the_rank, .timeout = 120)
{
	expect_misfit(true, "all_gather_v #1: rank ", "rank 1");
	expect_misfit(false, "rank 1 sends 6 i32 to rank 2", "which expects 5");
}
