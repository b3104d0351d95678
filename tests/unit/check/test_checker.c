/* Plans that the checker refuses, one a kind. */
#include <criterion/criterion.h>

#include "check/checker.h"
#include "mutants.h"

Test(checker, refuses_a_peer_that_does_not_exist)
{
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 1, 0, TO, 3 }),
		"rank 1, step 0 (send chunk 0, in[0], to 3): there is no rank 3");
}

Test(checker, refuses_a_rank_that_sends_to_itself)
{
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 1, 5, PEER, 1 }),
		"rank 1, step 5 (recv chunk 2 from 1 into out[2]): no link leads from a rank to "
		"itself");
}

Test(checker, refuses_a_chunk_outside_the_space)
{
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 2, 0, CHUNK, 3 }),
		"rank 2, step 0 (send chunk 3, in[1], to 0): there is no such chunk");
}

Test(checker, refuses_memory_outside_the_buffers)
{
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 2, 0, FROM, 3 }),
		"rank 2, step 0 (send chunk 1, in[3], to 0): it reads a chunk that is not one of "
		"the 3 there");
	expect_refused("ring", RD_ALL_REDUCE,
		EDITS({ 2, 5, INTO_MEMORY, RD_SCRATCH }, { 2, 5, INTO, 0 }),
		"rank 2, step 5 (recv chunk 0 from 1 into scratch[0]): it writes to a chunk that "
		"is not one of the 0 there");
}

Test(checker, refuses_a_write_to_the_input)
{
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 2, 5, INTO_MEMORY, RD_IN }),
		"rank 2, step 5 (recv chunk 0 from 1 into in[0]): it writes to the input");
}

Test(checker, refuses_steps_that_read_or_write_nowhere)
{
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 2, 0, FROM_MEMORY, RD_NOWHERE }),
		"rank 2, step 0 (send chunk 1, nowhere, to 0): it reads nowhere");
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 2, 5, INTO_MEMORY, RD_NOWHERE }),
		"rank 2, step 5 (recv chunk 0 from 1 into nowhere): it writes to nowhere");
}

Test(checker, refuses_a_kind_of_step_or_memory_that_does_not_exist)
{
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 0, 1, KIND, 99 }),
		"rank 0, step 1: no such kind of step or memory");
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 0, 1, FROM_MEMORY, 99 }),
		"rank 0, step 1: no such kind of step or memory");
}

Test(checker, refuses_to_reduce_where_nothing_is_reduced)
{
	expect_refused("ring", RD_BROADCAST, EDITS({ 2, 0, KIND, RD_STEP_RECV_REDUCE }),
		"rank 2, step 0 (recv_reduce chunk 0 from 1 with nowhere into out[0]): broadcast "
		"reduces nothing");
}

Test(checker, refuses_a_flush_of_what_was_not_sent)
{
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 0, 3, SENDER, 4 }),
		"rank 0, step 3 (flush step 4 (chunk 2 to 1)): no earlier step 4 sends");
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 0, 3, TO, 2 }),
		"rank 0, step 3 (flush step 0 (chunk 2 to 2)): step 0 sends to rank 1, not to 2");
}

Test(checker, refuses_plans_of_different_calls)
{
	expect_refused("ring", RD_BROADCAST, EDITS({ 1, 0, ROOT, 1 }),
		"rank 1: its plan is for another call than rank 0's");
	expect_refused("ring", RD_BROADCAST, EDITS({ 1, 0, PARTS, 2 }),
		"rank 1: its plan is for another call than rank 0's");
	expect_refused("ring", RD_BROADCAST, EDITS({ 1, 0, RANK, 2 }),
		"rank 1 of 3: its plan is for rank 2 of 3");
}

Test(checker, refuses_to_overwrite_what_may_still_be_sent)
{
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 0, 3, DROP, 0 }),
		"rank 0, step 3 (forward chunk 2 from 2 to 1, keep in out[2]): it overwrites what "
		"step 0 may still be sending, with no flush between");
}

Test(checker, refuses_to_read_an_input_that_is_overwritten_in_place)
{
	/* out[0] has the sum since step 2. */
	expect_refused("ring", RD_ALL_REDUCE,
		EDITS({ 0, 3, KIND, RD_STEP_COPY }, { 0, 3, CHUNK, 0 },
			{ 0, 3, FROM_MEMORY, RD_IN }, { 0, 3, FROM, 0 },
			{ 0, 3, INTO_MEMORY, RD_OUT }, { 0, 3, INTO, 1 }),
		"rank 0, step 3 (copy chunk 0, in[0], to out[1]): in place, step 2 has overwritten "
		"this input");
}

Test(checker, refuses_to_read_what_was_never_written)
{
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 1, 0, FROM_MEMORY, RD_OUT }),
		"rank 1, step 0 (send chunk 0, out[0], to 2): it reads what no step has written");
}

Test(checker, refuses_to_read_another_chunk_than_the_step_says)
{
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 1, 0, FROM, 2 }),
		"rank 1, step 0 (send chunk 0, in[2], to 2): it reads another chunk than it says");
	expect_refused("ring", RD_ALL_REDUCE,
		EDITS({ 0, 5, KIND, RD_STEP_COPY }, { 0, 5, CHUNK, 1 },
			{ 0, 5, FROM_MEMORY, RD_OUT }, { 0, 5, FROM, 2 },
			{ 0, 5, INTO_MEMORY, RD_OUT }, { 0, 5, INTO, 1 }),
		"rank 0, step 5 (copy chunk 1, out[2], to out[1]): it reads where chunk 2 lies");
}

Test(checker, refuses_a_message_that_is_not_what_its_receiver_expects)
{
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 1, 5, CHUNK, 1 }),
		"rank 1, step 5 (recv chunk 1 from 0 into out[2]): rank 0, step 4, sends it chunk "
		"2");
}

Test(checker, refuses_a_message_that_nobody_receives)
{
	expect_refused("linear", RD_GATHER, EDITS({ 0, 1, DROP, 0 }),
		"rank 2, step 0 (send chunk 2, in[0], to 0): rank 0 has finished and never "
		"receives it");
}

Test(checker, refuses_a_receive_that_nobody_sends_to)
{
	expect_refused("linear", RD_GATHER, EDITS({ 2, 0, DROP, 0 }),
		"rank 0, step 1 (recv chunk 2 from 2 into out[2]): rank 2 has finished and never "
		"sends it");
}

Test(checker, refuses_a_contribution_that_is_counted_twice)
{
	/* Valid for a barrier, in which a contribution may count twice. */
	expect_refused("linear", RD_BARRIER,
		EDITS({ 0, 0, COLLECTIVE, RD_ALL_REDUCE }, { 0, 2, LAST, false },
			{ 1, 0, COLLECTIVE, RD_ALL_REDUCE }, { 1, 2, LAST, false },
			{ 2, 0, COLLECTIVE, RD_ALL_REDUCE }, { 2, 2, LAST, false }),
		"rank 0, step 4 (recv_reduce_last chunk 0 from 1 with out[0] into out[0]): rank "
		"0's contribution is already in it");
}

Test(checker, refuses_last_where_it_is_too_early_or_missing)
{
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 2, 1, LAST, true }),
		"rank 2, step 1 (reduce_forward_last chunk 0 from 1 with in[0] to 0, keep in "
		"nowhere): marked `last`, and rank 0's contribution is missing");
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 0, 2, LAST, false }),
		"rank 0, step 2 (reduce_forward chunk 0 from 2 with in[0] to 1, keep in out[0]): "
		"the result is complete, and not marked `last`");
	expect_refused("ring", RD_ALL_REDUCE, EDITS({ 0, 5, LAST, true }),
		"rank 0, step 5 (recv chunk 1 from 2 into out[1]): `last` stands on a step that "
		"reduces nothing");
}

/* Along the ranks to rank 0. The last one passes on the sum of those before. */
static void leave_out(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	if (rank == 0)
		rd_recv_reduce(plan, size - 1, 0);
	else if (rank == size - 1)
		rd_recv(plan, rank - 1, 0);
	else if (rank > 1)
		rd_recv_reduce(plan, rank - 1, 0);
	if (rank > 0)
		rd_send(plan, rd_wrap(rank + 1, size), 0);
}

Test(checker, refuses_an_output_without_everyone_in_it)
{
	expect_plans_refused(messages_by(leave_out), RD_REDUCE, 4,
		"rank 0: rank 3's contribution is not in output chunk 0");
}

Test(checker, refuses_an_output_that_was_not_written_or_is_another_chunk)
{
	expect_refused("ring", RD_BROADCAST, EDITS({ 0, 1, DROP, 0 }),
		"rank 0: output chunk 0 was never written");
	expect_refused("linear", RD_GATHER, EDITS({ 0, 0, INTO, 2 }, { 0, 1, INTO, 1 }),
		"rank 0: output chunk 1 is chunk 2 instead of 1");
}

/* ---- Algorithms ---------------------------------------------------------------------------- */

static void receive_first(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	rd_recv(plan, rd_wrap(rank - 1, size), rd_wrap(rank - 1, size));
	rd_send(plan, rd_wrap(rank + 1, size), rank);
}

Test(checker, names_the_ranks_and_steps_of_a_deadlock)
{
	const struct rd_algorithm algorithm = messages_by(receive_first);

	expect_plans_refused(algorithm, RD_ALL_GATHER, 2,
		"deadlock: rank 0, step 0 (recv chunk 1 from 1 into out[1]), waits for rank 1, "
		"step 0 (recv chunk 0 from 0 into out[0]), waits for rank 0");
	/* The circle is too long for a reason. */
	cr_expect_eq(rd_check_algorithm(&algorithm, RD_ALL_GATHER, 60, 0, 0, NULL), RONDO_INVALID);
}

static void send_three_then_receive(struct rd_plan *plan)
{
	int peer = !plan->problem.rank;

	rd_plan_parts(plan, 3);
	for (int part = 0; part < 3; part++)
		rd_send(plan, peer, plan->problem.rank * 3 + part);
	for (int part = 0; part < 3; part++)
		rd_recv(plan, peer, peer * 3 + part);
}

Test(checker, counts_on_two_messages_a_link_and_no_more)
{
	expect_plans_refused(messages_by(send_three_then_receive), RD_ALL_GATHER, 2,
		"deadlock: rank 0, step 2 (send chunk 2, in[2], to 1), waits for rank 1, step 2 "
		"(send chunk 5, in[2], to 0), waits for rank 0");
}

/* In place, the block that arrives first lands where the block lies that is sent second. */
static void exchange_crosswise(struct rd_plan *plan)
{
	int rank = plan->problem.rank, peer = !rank;
	int mine = (rank * 2 + peer) * 2, theirs = (peer * 2 + rank) * 2;

	rd_plan_parts(plan, 2);
	rd_send(plan, peer, mine + rank);
	rd_send(plan, peer, mine + !rank);
	rd_recv(plan, peer, theirs + peer);
	rd_recv(plan, peer, theirs + !peer);
}

Test(checker, counts_on_one_message_to_leave_its_memory_early_and_no_more)
{
	expect_plans_refused(messages_by(exchange_crosswise), RD_ALL_TO_ALL, 2,
		"deadlock: rank 0, step 2 (flush step 1 (chunk 3 to 1)), waits for rank 1, step 2 "
		"(flush step 1 (chunk 4 to 0)), waits for rank 0");
}

/* Each rank sends to all, and adds from its next neighbour on. */
static void add_from_next(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	for (int far = 1; far < size; far++)
		rd_send(plan, rd_wrap(rank + far, size), 0);
	for (int far = 1; far < size - 1; far++)
		rd_recv_reduce(plan, rd_wrap(rank + far, size), 0);
	if (size > 1)
		rd_recv_reduce_last(plan, rd_wrap(rank - 1, size), 0);
}

Test(checker, refuses_results_that_are_not_the_same_bits_on_every_rank)
{
	/* a + b is b + a. */
	expect_accepted(messages_by(add_from_next), RD_ALL_REDUCE, 2);
	expect_plans_refused(messages_by(add_from_next), RD_ALL_REDUCE, 3,
		"rank 1: chunk 0 is not the same bits as on rank 0: combined in another order");
}

/* Rank 2 sends its own contribution, then passes on rank 1's. */
static void pass_on(struct rd_plan *plan)
{
	switch (plan->problem.rank) {
	case 0:
		rd_recv_reduce(plan, 2, 0);
		rd_recv_reduce_last(plan, 2, 0);
		break;
	case 1:
		rd_send(plan, 2, 0);
		break;
	default:
		rd_send(plan, 0, 0);
		rd_recv(plan, 1, 0);
		rd_send(plan, 0, 0);
	}
}

Test(checker, refuses_to_pass_on_a_contribution)
{
	expect_plans_refused(messages_by(pass_on), RD_REDUCE, 3,
		"rank 2, step 1 (forward chunk 0 from 1 to 0, keep in nowhere): receives one "
		"rank's contribution, and does not combine it");
}

static void write_nothing(struct rd_plan *plan)
{
	(void)plan;
}

Test(checker, passes_on_the_error_of_a_plan)
{
	expect_plans_refused(messages_by(write_nothing), RD_BROADCAST, 2,
		"test: rank 1 of 2, step 0: never gets a chunk that its output must hold (chunk 0)");
}

/* ---- Merges ---------------------------------------------------------------------------------- */

/* Plans that merge, and that the checker refuses. */

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
