/* Plans that merge, and that the checker refuses. */
#include <criterion/criterion.h>

#include "check/checker.h"
#include "mutants.h"

/* Each rank has two sends, two holds, a flush of each send, since in place the input is
   overwritten; then the merge. */
Test(checker, refuses_to_merge_what_is_not_held)
{
	expect_refused("one_round", RD_ALL_REDUCE, EDITS({ 1, 3, DROP, 0 }),
		"rank 1, step 5 (merge_last chunk 0 from all with in[0] into out[0]): it merges "
		"the messages of 2 ranks, and 1 are held");
	expect_refused("one_round", RD_ALL_REDUCE, EDITS({ 1, 3, PEER, 2 }),
		"rank 1, step 3 (hold chunk 0 from 2): step 2 already holds rank 2's message");
}

Test(checker, refuses_to_hold_what_is_not_merged_next)
{
	expect_refused("one_round", RD_ALL_REDUCE, EDITS({ 2, 6, DROP, 0 }),
		"rank 2, step 2 (hold chunk 0 from 0): what it holds is not merged next");
	/* The step after the HOLD takes the message that the HOLD keeps. */
	expect_refused("one_round", RD_ALL_GATHER,
		EDITS({ 0, 2, KIND, RD_STEP_HOLD }, { 0, 2, INTO_MEMORY, RD_NOWHERE }),
		"rank 0, step 2 (hold chunk 1 from 1): what it holds is not merged next");
}

Test(checker, refuses_to_merge_over_what_may_still_be_sent)
{
	expect_refused("one_round", RD_ALL_REDUCE, EDITS({ 0, 4, DROP, 0 }),
		"rank 0, step 5 (merge_last chunk 0 from all with in[0] into out[0]): it "
		"overwrites what step 1 may still be sending, with no flush between");
}

Test(checker, refuses_a_merge_that_lacks_a_message_or_is_not_marked_last)
{
	expect_refused("one_round", RD_REDUCE, EDITS({ 1, 0, DROP, 0 }),
		"rank 0, step 0 (hold chunk 0 from 1): rank 1 has finished and never sends it");
	expect_refused("one_round", RD_REDUCE, EDITS({ 0, 2, LAST, false }),
		"rank 0, step 2 (merge chunk 0 from all with in[0] into out[0]): the result is "
		"complete, and not marked `last`");
}

/* Rank 2 sends rank 0 a sum with rank 1's contribution. */
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

Test(checker, refuses_to_merge_what_was_combined_before)
{
	expect_plans_refused(messages_by(add_and_merge), RD_REDUCE, 3,
		"rank 0, step 2 (merge_last chunk 0 from all with in[0] into out[0]): rank 2 "
		"sends it more than its own contribution");
}

/* A message of a HOLD takes a place in its link until the MERGE. */
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

Test(checker, counts_held_messages_among_the_two_of_a_link)
{
	expect_accepted(messages_by(send_two_ahead), RD_ALL_REDUCE, 3);
	expect_plans_refused(messages_by(send_three_ahead), RD_ALL_REDUCE, 3,
		"deadlock: rank 0, step 4 (send chunk 2, in[2], to 1), waits for rank 1, step 4 "
		"(send chunk 2, in[2], to 2), waits for rank 2, step 4 (send chunk 2, in[2], to "
		"0), waits for rank 0");
}
