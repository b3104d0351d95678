/* Plans of direct access that the checker refuses. */
#include <criterion/criterion.h>
#include <string.h>

#include "check/checker.h"
#include "mesh/mesh.h"
#include "mutants.h"
#include "base/error.h"
#include "check/proof.h"
#include "exec/algorithms.h"
#include "ring/ring.h"

Test(checker, refuses_a_signal_that_nobody_awaits)
{
	/* copy, signal 1, signal 2, await 1, await 2 */
	expect_refused("two_shot", RD_BROADCAST, EDITS({ 0, 2, DROP, 0 }),
		"rank 1, step 1 (signal 0): rank 0 has finished and never awaits it");
}

Test(checker, refuses_to_await_what_nobody_signals)
{
	expect_refused("two_shot", RD_BROADCAST, EDITS({ 1, 1, DROP, 0 }),
		"rank 0, step 2 (await 1): rank 1 has finished and never signals it");
}

Test(checker, refuses_a_rank_that_ends_while_its_memory_is_read)
{
	expect_refused("two_shot", RD_BROADCAST, EDITS({ 1, 1, DROP, 0 }, { 0, 2, DROP, 0 }),
		"rank 0 may end while rank 1 may still be reading its memory (step 0, fetch chunk "
		"0, in[0] of 0, to out[0])");
}

Test(checker, refuses_a_rank_that_ends_while_its_memory_is_written)
{
	/* combine, signal 1, signal 2, await ...: rank 0 signals rank 1 too early. */
	expect_refused("two_shot", RD_ALL_REDUCE, EDITS({ 0, 0, SWAP, 0 }),
		"rank 1 may end while rank 0 may still be writing its memory (step 1, combine "
		"chunk 0, in[0] of all, into out[0] of all)");
}

Test(checker, refuses_direct_access_by_an_algorithm_that_is_not_marked_for_it)
{
	expect_refused("two_shot", RD_BROADCAST, EDITS({ 1, 0, DIRECT_ACCESS, false }),
		"rank 1, step 0 (fetch chunk 0, in[0] of 0, to out[0]): its algorithm is not "
		"marked `direct_access`");
	expect_refused("two_shot", RD_BROADCAST, EDITS({ 0, 0, DIRECT_ACCESS, false }),
		"rank 0, step 0 (signal 1): its algorithm is not marked `direct_access`");
}

static void fetch_from_root(struct rd_plan *plan)
{
	const struct rd_problem *problem = rd_problem_of(plan);

	if (problem->rank != problem->root)
		rd_fetch(plan, problem->root, problem->rank);
}

/* The root's input has more places than the others', so no such plan may be finished. */
Test(checker, refuses_an_unmarked_algorithm_at_its_first_step_of_direct_access)
{
	static const struct rd_algorithm unmarked = {
		.name = "unmarked",
		.write = { [RD_SCATTER] = fetch_from_root },
	};

	cr_expect_eq(rd_check_algorithm(&unmarked, RD_SCATTER, 8, 0, 0, NULL), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "rank 1 of 8, step 0: accesses another rank's memory, "
					     "and its algorithm is not marked `direct_access`"),
		"%s", rondo_last_error());
}

Test(checker, refuses_a_fetch_of_another_chunk_or_from_another_rank_than_has_it)
{
	expect_refused("two_shot", RD_SCATTER, EDITS({ 1, 0, FROM, 2 }),
		"rank 1, step 0 (fetch chunk 1, in[2] of 0, to out[0]): rank 0 does not have chunk "
		"1 there");
	expect_refused("two_shot", RD_SCATTER, EDITS({ 1, 0, PEER, 2 }),
		"rank 1, step 0 (fetch chunk 1, in[1] of 2, to out[0]): rank 2 does not have chunk "
		"1 there");
	expect_refused("two_shot", RD_SCATTER, EDITS({ 1, 0, CHUNK, 2 }, { 1, 0, FROM, 2 }),
		"rank 1: output chunk 0 is chunk 2 instead of 1");
	expect_refused("two_shot", RD_SCATTER, EDITS({ 1, 0, PEER, 1 }),
		"rank 1, step 0 (fetch chunk 1, in[1] of 1, to out[0]): no link leads from a rank "
		"to itself");
	expect_refused("two_shot", RD_SCATTER, EDITS({ 1, 0, FROM, -1 }),
		"rank 1, step 0 (fetch chunk 1, in[-1] of 0, to out[0]): it reads what is no "
		"input");
}

Test(checker, refuses_direct_access_to_what_is_not_there)
{
	expect_refused("two_shot", RD_ALL_GATHER, EDITS({ 1, 0, INTO, 3 }),
		"rank 1, step 0 (fetch chunk 2, in[0] of 2, to out[3]): it writes to a chunk that "
		"is not one of the 3 there");
	expect_refused("two_shot", RD_ALL_GATHER, EDITS({ 1, 0, INTO_MEMORY, RD_SCRATCH }),
		"rank 1, step 0 (fetch chunk 2, in[0] of 2, to scratch[2]): it writes to what is "
		"no output");
	expect_refused("two_shot", RD_REDUCE, EDITS({ 1, 0, INTO, 3 }),
		"rank 1, step 0 (combine chunk 1, in[1] of all, into out[3] of 0): rank 0 has 3 "
		"output chunks");
	expect_refused("two_shot", RD_REDUCE, EDITS({ 1, 0, TO, 2 }),
		"rank 1, step 0 (combine chunk 1, in[1] of all, into out[1] of 2): rank 2 has 0 "
		"output chunks");
	expect_refused("two_shot", RD_REDUCE, EDITS({ 0, 0, TO, -1 }),
		"rank 0, step 0 (combine chunk 0, in[0] of all, into out[0] of all): rank 1 has 0 "
		"output chunks");
	expect_refused("two_shot", RD_REDUCE, EDITS({ 1, 0, TO, 3 }),
		"rank 1, step 0 (combine chunk 1, in[1] of all, into out[1] of 3): there is no "
		"rank 3");
}

Test(checker, refuses_to_combine_other_chunks_than_the_step_says)
{
	expect_refused("two_shot", RD_ALL_REDUCE, EDITS({ 1, 0, FROM, 2 }),
		"rank 1, step 0 (combine chunk 1, in[2] of all, into out[1] of all): rank 0 does "
		"not have chunk 1 there");
	expect_refused("two_shot", RD_ALL_REDUCE, EDITS({ 1, 0, LAST, false }),
		"rank 1, step 0 (combine chunk 1, in[1] of all, into out[1] of all): the result is "
		"complete, and not marked `last`");
	expect_refused("two_shot", RD_BROADCAST, EDITS({ 1, 0, KIND, RD_STEP_COMBINE }),
		"rank 1, step 0 (combine chunk 0, in[0] of all, into out[0] of all): broadcast "
		"reduces nothing");
}

Test(checker, refuses_signals_that_name_a_chunk_and_data_where_a_signal_is_awaited)
{
	expect_refused("two_shot", RD_BROADCAST, EDITS({ 0, 0, CHUNK, 0 }),
		"rank 0, step 0 (signal 1): a signal carries nothing, but it names a chunk");
	expect_refused("two_shot", RD_BROADCAST,
		EDITS({ 0, 0, KIND, RD_STEP_SEND }, { 0, 0, FROM_MEMORY, RD_IN }, { 0, 0, FROM, 0 },
			{ 0, 0, CHUNK, 0 }),
		"rank 1, step 3 (await 0): rank 0, step 0, sends it chunk 0");
	expect_refused("two_shot", RD_BROADCAST,
		EDITS({ 1, 3, KIND, RD_STEP_RECV }, { 1, 3, PEER, 0 }, { 1, 3, CHUNK, 0 },
			{ 1, 3, INTO_MEMORY, RD_OUT }, { 1, 3, INTO, 0 }),
		"rank 1, step 3 (recv chunk 0 from 0 into out[0]): rank 0, step 0, only signals");
}

static void combine_alone(struct rd_plan *plan)
{
	rd_combine(plan, 0, 0);
}

Test(checker, refuses_to_combine_where_there_is_one_rank)
{
	expect_plans_refused(direct_by(combine_alone), RD_ALL_REDUCE, 1,
		"rank 0, step 0 (combine chunk 0, in[0] of all, into out[0] of 0): there is no "
		"second rank");
}

static void await_then_signal(struct rd_plan *plan)
{
	int peer = !plan->problem.rank;

	rd_combine(plan, plan->problem.rank, plan->problem.rank);
	rd_await(plan, peer);
	rd_signal(plan, peer);
}

Test(checker, names_the_ranks_that_await_each_other)
{
	expect_plans_refused(direct_by(await_then_signal), RD_REDUCE_SCATTER, 2,
		"deadlock: rank 0, step 1 (await 1), waits for rank 1, step 1 (await 0), waits for "
		"rank 0");
}

static void combine_and_expect_nothing(struct rd_plan *plan)
{
	rd_plan_parts(plan, plan->problem.size);
	rd_combine(plan, -1, plan->problem.rank);
	rd_two_shot_part(plan);
}

Test(checker, refuses_to_copy_the_input_over_what_another_rank_wrote)
{
	expect_plans_refused(direct_by(combine_and_expect_nothing), RD_ALL_REDUCE, 3,
		"rank 0: rank 1's contribution is not in output chunk 1");
}

static void expect_too_much(struct rd_plan *plan)
{
	rd_plan_parts(plan, plan->problem.size);
	if (plan->problem.rank > 0)
		rd_combine(plan, -1, plan->problem.rank);
	for (int share = 0; share < plan->problem.size; share++)
		rd_expect(plan, share);
	rd_two_shot_part(plan);
}

Test(checker, refuses_to_expect_what_nobody_writes)
{
	expect_plans_refused(direct_by(expect_too_much), RD_ALL_REDUCE, 3,
		"rank 0: output chunk 0 was never written");
}

Test(checker, refuses_two_ranks_that_write_to_the_same_memory)
{
	expect_refused("two_shot", RD_ALL_REDUCE, EDITS({ 1, 0, INTO, 0 }),
		"rank 1, step 0 (combine chunk 1, in[1] of all, into out[0] of all): it writes "
		"out[0] of rank 0, which rank 0 may still be writing (step 0, combine chunk 0, "
		"in[0] of all, into out[0] of all)");
}

/* Each rank combines for itself: valid out of place, a race in place. */
static void combine_for_oneself(struct rd_plan *plan)
{
	rd_combine(plan, plan->problem.rank, 0);
	rd_two_shot_part(plan);
}

Test(checker, refuses_a_race_that_exists_in_place_alone)
{
	expect_plans_refused(direct_by(combine_for_oneself), RD_ALL_REDUCE, 2,
		"rank 1, step 0 (combine chunk 0, in[0] of all, into out[0] of 1): in place, it "
		"reads in[0] of rank 0, which rank 0 may still be writing (step 0, combine chunk "
		"0, in[0] of all, into out[0] of 0)");
}

static void combine_in_turn(struct rd_plan *plan)
{
	if (plan->problem.rank == 1)
		rd_await(plan, 0);
	rd_combine(plan, plan->problem.rank, 0);
	if (plan->problem.rank == 0)
		rd_signal(plan, 1);
	rd_two_shot_part(plan);
}

Test(checker, refuses_to_read_another_ranks_input_that_is_overwritten_in_place)
{
	expect_plans_refused(direct_by(combine_in_turn), RD_ALL_REDUCE, 2,
		"rank 1, step 1 (combine chunk 0, in[0] of all, into out[0] of 1): in place, rank "
		"0, step 0, has overwritten in[0] of rank 0");
}

/* Rank 1 reads its output without a wait for rank 0, which writes there. */
static void copy_too_early(struct rd_plan *plan)
{
	int rank = plan->problem.rank;

	rd_plan_parts(plan, 2);
	if (rank == 0) {
		rd_combine(plan, -1, 0);
		rd_combine(plan, -1, 1);
		rd_recv(plan, 1, 0);
	} else {
		rd_expect(plan, 0);
		rd_expect(plan, 1);
		rd_send(plan, 0, 0);
	}
	rd_two_shot_part(plan);
}

Test(checker, refuses_to_send_what_another_rank_may_still_be_writing)
{
	expect_plans_refused(direct_by(copy_too_early), RD_ALL_REDUCE, 2,
		"rank 1, step 0 (send chunk 0, out[0], to 0): it reads out[0] of rank 1, which "
		"rank 0 may still be writing (step 0, combine chunk 0, in[0] of all, into out[0] "
		"of all)");
}

static void create_pair(struct rd_plan *plans[2], void (*write)(struct rd_plan *plan),
	enum rd_collective collective)
{
	const struct rd_algorithm algorithm = direct_by(write);

	for (int rank = 0; rank < 2; rank++)
		cr_assert_eq(rd_plan_create(&plans[rank], &algorithm,
				     &(struct rd_problem){ collective, rank, 2, 0, 0, NULL }),
			0);
}

static void destroy_pair(struct rd_plan *plans[2])
{
	rd_plan_destroy(plans[0]);
	rd_plan_destroy(plans[1]);
}

/* The receiver of the root's input writes to the root's output, which in place is that input. */
static void send_and_be_written_to(struct rd_plan *plan)
{
	if (plan->problem.rank == 0) {
		rd_send(plan, 1, 0);
		rd_signal(plan, 1);
		rd_expect(plan, 0);
		rd_await(plan, 1);
	} else {
		rd_recv_reduce_last(plan, 0, 0);
		rd_await(plan, 0);
		rd_combine(plan, 0, 0);
		rd_signal(plan, 0);
		rd_await(plan, 0);
	}
	if (plan->problem.rank == 0)
		rd_signal(plan, 1);
}

Test(checker, refuses_to_write_to_memory_that_its_rank_may_still_be_sending)
{
	struct rd_step flush = { .kind = RD_STEP_FLUSH, .peer = -1, .to = 1, .sender = 0 };
	struct rd_plan *plans[2];

	expect_plans_refused(direct_by(send_and_be_written_to), RD_REDUCE, 2,
		"rank 1, step 2 (combine chunk 0, in[0] of all, into out[0] of 0): in place, it "
		"writes out[0] of rank 0, which rank 0 may still be sending (step 0, send chunk 0, "
		"in[0], to 1)");
	/* A FLUSH before the signal makes it valid. */
	create_pair(plans, send_and_be_written_to, RD_REDUCE);
	cr_assert_lt(plans[0]->step_count, plans[0]->capacity);
	memmove(plans[0]->steps + 2, plans[0]->steps + 1,
		(plans[0]->step_count++ - 1) * sizeof(flush));
	plans[0]->steps[1] = flush;
	cr_expect_eq(rd_check_plans(plans, 2), 0, "%s", rondo_last_error());
	destroy_pair(plans);
}

static void send_then_combine(struct rd_plan *plan)
{
	if (plan->problem.rank == 0) {
		rd_send(plan, 1, 0);
		rd_combine(plan, 0, 0);
	} else {
		rd_recv(plan, 0, 0);
	}
	rd_two_shot_part(plan);
}

Test(checker, refuses_to_combine_over_what_the_rank_may_still_be_sending)
{
	expect_plans_refused(direct_by(send_then_combine), RD_REDUCE, 2,
		"rank 0, step 1 (combine chunk 0, in[0] of all, into out[0] of 0): it overwrites "
		"what step 0 may still be sending, with no flush between");
}

/* In place the chunk that is sent and the one that is fetched have one address. */
static void send_then_fetch(struct rd_plan *plan)
{
	if (plan->problem.rank == 0) {
		rd_send(plan, 1, 1);
		rd_fetch(plan, 1, 2);
	} else {
		rd_recv(plan, 0, 1);
	}
	rd_two_shot_part(plan);
}

Test(checker, refuses_to_fetch_over_what_the_rank_may_still_be_sending)
{
	struct rd_plan *plans[2];

	create_pair(plans, send_then_fetch, RD_ALL_TO_ALL);
	cr_assert_eq(plans[0]->steps[1].kind, RD_STEP_FLUSH);
	edit_plan(plans[0], &(struct edit){ 0, 1, DROP, 0 });
	cr_expect_eq(rd_check_plans(plans, 2), RONDO_INVALID);
	cr_expect_str_eq(rondo_last_error(),
		"rank 0, step 1 (fetch chunk 2, in[0] of 1, to out[1]): it overwrites what step 0 "
		"may still be sending, with no flush between");
	destroy_pair(plans);
}

/* Rank 1 combines and sends the result to rank 0, where in place it lands on an input. */
static void send_back(struct rd_plan *plan, bool signals)
{
	if (plan->problem.rank == 0) {
		if (signals)
			rd_await(plan, 1);
		rd_recv(plan, 1, 0);
	} else {
		rd_combine(plan, 1, 0);
		if (signals)
			rd_signal(plan, 0);
		rd_send(plan, 0, 0);
	}
}

static void send_back_at_once(struct rd_plan *plan)
{
	send_back(plan, false);
}

static void send_back_after_a_signal(struct rd_plan *plan)
{
	send_back(plan, true);
}

Test(checker, counts_on_messages_to_land_before_they_have_come_whole)
{
	expect_plans_refused(direct_by(send_back_at_once), RD_ALL_REDUCE, 2,
		"rank 0, step 0 (recv chunk 0 from 1 into out[0]): in place, it writes out[0] of "
		"rank 0, which rank 1 may still be reading (step 0, combine chunk 0, in[0] of all, "
		"into out[0] of 1)");
	expect_accepted(direct_by(send_back_after_a_signal), RD_ALL_REDUCE, 2);
}

/* Rank 1 signals rank 0 for rank 2, too. */
static void pass_on(struct rd_plan *plan, bool patient)
{
	switch (plan->problem.rank) {
	case 0:
		rd_await(plan, 1);
		break;
	case 1:
		rd_fetch(plan, 0, 0);
		if (patient)
			rd_await(plan, 2);
		rd_signal(plan, 0);
		if (!patient)
			rd_await(plan, 2);
		break;
	default:
		rd_fetch(plan, 0, 0);
		rd_signal(plan, 1);
	}
}

static void pass_on_patiently(struct rd_plan *plan)
{
	pass_on(plan, true);
}

static void pass_on_hastily(struct rd_plan *plan)
{
	pass_on(plan, false);
}

Test(checker, follows_signals_through_third_ranks)
{
	expect_accepted(direct_by(pass_on_patiently), RD_BROADCAST, 3);
	expect_plans_refused(direct_by(pass_on_hastily), RD_BROADCAST, 3,
		"rank 0 may end while rank 2 may still be reading its memory (step 0, fetch chunk "
		"0, in[0] of 0, to out[0])");
}

/* ---- Room of a proof ------------------------------------------------------------------------- */

/* The table of algorithms, which is full. */

Test(proof_room, an_algorithm_without_room_leaves_no_trace)
{
	static const struct rd_algorithm without_room;

	while (!rd_algorithms_check_room())
		cr_assert_eq(rd_algorithm_add(&rd_ring), 0);
	cr_expect_eq(rd_proof_add(&without_room), RONDO_UNSUPPORTED);
	cr_expect_not(rd_proof_is_demanded(&without_room));
}
