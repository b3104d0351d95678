/* Plans that merge, and are refused. */
#include <criterion/criterion.h>

#include "check/checker.h"
#include "mutants.h"

/* Of each rank: two sends, two holds, a flush of each send, since in place the input is
   overwritten; then the merge. */
Test(checker, refuses_to_merge_what_is_not_held)
{
	struct world world = three("one_round", RD_ALL_REDUCE);

	drop_step(world.plans[1], 3);
	expect_refused(&world,
		"rank 1, step 5 (merge_last chunk 0 from all with in[0] into out[0]): "
		"it merges the messages of 2 ranks, and 1 are held");
	world = three("one_round", RD_ALL_REDUCE);
	world.plans[1]->steps[3].peer = 2;
	expect_refused(&world,
		"rank 1, step 3 (hold chunk 0 from 2): step 2 already holds rank 2's message");
}

Test(checker, refuses_to_hold_what_is_not_merged_next)
{
	struct world world = three("one_round", RD_ALL_REDUCE);

	drop_step(world.plans[2], 6);
	expect_refused(
		&world, "rank 2, step 2 (hold chunk 0 from 0): what it holds is not merged next");
	/* A message would be taken that is held already. */
	world = three("one_round", RD_ALL_GATHER);
	world.plans[0]->steps[2].kind = RD_STEP_HOLD;
	world.plans[0]->steps[2].into.memory = RD_NOWHERE;
	expect_refused(
		&world, "rank 0, step 2 (hold chunk 1 from 1): what it holds is not merged next");
}

Test(checker, refuses_to_merge_over_what_may_still_be_sent)
{
	struct world world = three("one_round", RD_ALL_REDUCE);

	drop_step(world.plans[0], 4);
	expect_refused(&world, "rank 0, step 5 (merge_last chunk 0 from all with in[0] into "
			       "out[0]): it overwrites "
			       "what step 1 may still be sending, with no flush between");
}

Test(checker, refuses_a_merge_that_lacks_a_message_or_is_not_marked_last)
{
	struct world world = three("one_round", RD_REDUCE);

	drop_step(world.plans[1], 0);
	expect_refused(&world,
		"rank 0, step 0 (hold chunk 0 from 1): rank 1 has finished and never "
		"sends it");
	world = three("one_round", RD_REDUCE);
	world.plans[0]->steps[2].last = false;
	expect_refused(&world,
		"rank 0, step 2 (merge chunk 0 from all with in[0] into out[0]): the "
		"result is complete, and not marked `last`");
}

/* Rank 0 gets from rank 2 what has rank 1's contribution in it already. */
static void add_and_merge(struct rd_plan *plan)
{
	switch (plan->problem.rank) {
	case 0:
		rd_recv_merge(plan, 0);
		break;
	case 1:
		rd_send(plan, 2, 0);
		rd_send(plan, 0, 0);
		break;
	default:
		rd_recv_reduce(plan, 1, 0);
		rd_send(plan, 0, 0);
	}
}

Test(checker, refuses_to_merge_a_contribution_twice)
{
	static const struct rd_algorithm twice = {
		.name = "twice",
		.write = { [RD_REDUCE] = add_and_merge },
	};

	cr_expect_eq(rd_check_algorithm(&twice, RD_REDUCE, 3, 0, 0, NULL), RONDO_INVALID);
	cr_expect(
		strstr(rondo_last_error(),
			"rank 0, step 2 (merge_last chunk 0 from all with in[0] into out[0]): rank "
			"1's contribution is already in it"),
		"%s", rondo_last_error());
}

/* What is held takes a place in its link until it is merged. */
static void send_ahead(struct rd_plan *plan, int chunks)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	rd_plan_parts(plan, 3);
	for (int chunk = 0; chunk < chunks; chunk++)
		for (int s = 1; s < size; s++)
			rd_send(plan, rd_wrap(rank + s, size), chunk);
	for (int chunk = 0; chunk < chunks; chunk++)
		rd_recv_merge(plan, chunk);
	for (int chunk = chunks; chunk < 3; chunk++) {
		for (int s = 1; s < size; s++)
			rd_send(plan, rd_wrap(rank + s, size), chunk);
		rd_recv_merge(plan, chunk);
	}
}

static void send_two_ahead(struct rd_plan *plan)
{
	send_ahead(plan, 2);
}

static void send_three_ahead(struct rd_plan *plan)
{
	send_ahead(plan, 3);
}

Test(checker, counts_what_is_held_among_the_two_messages_of_a_link)
{
	struct rd_algorithm ahead = { .name = "ahead",
		.write = { [RD_ALL_REDUCE] = send_two_ahead } };

	cr_expect_eq(rd_check_algorithm(&ahead, RD_ALL_REDUCE, 3, 0, 0, NULL), 0, "%s",
		rondo_last_error());
	ahead.write[RD_ALL_REDUCE] = send_three_ahead;
	cr_expect_eq(rd_check_algorithm(&ahead, RD_ALL_REDUCE, 3, 0, 0, NULL), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "deadlock"), "%s", rondo_last_error());
}
