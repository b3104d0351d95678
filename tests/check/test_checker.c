/* Plans that the checker refuses, one a kind. */
#include <criterion/criterion.h>

#include "check/checker.h"
#include "mutants.h"

Test(checker, refuses_a_peer_that_does_not_exist)
{
	struct world world = three("ring", RD_ALL_REDUCE);

	world.plans[1]->steps[0].to = 3;
	expect_refused(&world, "rank 1, step 0 (send chunk 0, in[0], to 3): there is no rank 3");
}

Test(checker, refuses_a_rank_that_sends_to_itself)
{
	struct world world = three("ring", RD_ALL_REDUCE);

	world.plans[1]->steps[5].peer = 1;
	expect_refused(&world,
		"rank 1, step 5 (recv chunk 2 from 1 into out[2]): no link leads from "
		"a rank to itself");
}

Test(checker, refuses_a_chunk_outside_the_space)
{
	struct world world = three("ring", RD_ALL_REDUCE);

	world.plans[2]->steps[0].chunk = 3;
	expect_refused(
		&world, "rank 2, step 0 (send chunk 3, in[1], to 0): there is no such chunk");
}

Test(checker, refuses_memory_outside_the_buffers)
{
	struct world world = three("ring", RD_ALL_REDUCE);

	world.plans[2]->steps[0].from.chunk = 3;
	expect_refused(&world,
		"rank 2, step 0 (send chunk 1, in[3], to 0): it reads a chunk that is "
		"not one of the 3 there");
	world = three("ring", RD_ALL_REDUCE);
	world.plans[2]->steps[5].into = (struct rd_where){ RD_SCRATCH, 0 };
	expect_refused(&world,
		"rank 2, step 5 (recv chunk 0 from 1 into scratch[0]): it writes to a "
		"chunk that is not one of the 0 there");
}

Test(checker, refuses_a_write_to_the_input)
{
	struct world world = three("ring", RD_ALL_REDUCE);

	world.plans[2]->steps[5].into.memory = RD_IN;
	expect_refused(
		&world, "rank 2, step 5 (recv chunk 0 from 1 into in[0]): it writes to the input");
}

Test(checker, refuses_steps_that_read_or_write_nowhere)
{
	struct world world = three("ring", RD_ALL_REDUCE);

	world.plans[2]->steps[0].from.memory = RD_NOWHERE;
	expect_refused(&world, "rank 2, step 0 (send chunk 1, nowhere, to 0): it reads nowhere");
	world = three("ring", RD_ALL_REDUCE);
	world.plans[2]->steps[5].into.memory = RD_NOWHERE;
	expect_refused(
		&world, "rank 2, step 5 (recv chunk 0 from 1 into nowhere): it writes to nowhere");
}

Test(checker, refuses_a_kind_of_step_or_memory_that_does_not_exist)
{
	struct world world = three("ring", RD_ALL_REDUCE);

	world.plans[0]->steps[1].kind = 99;
	expect_refused(&world, "rank 0, step 1: no such kind of step or memory");
	world = three("ring", RD_ALL_REDUCE);
	world.plans[0]->steps[1].from.memory = 99;
	expect_refused(&world, "rank 0, step 1: no such kind of step or memory");
}

Test(checker, refuses_to_reduce_where_nothing_is_reduced)
{
	struct world world = three("ring", RD_BROADCAST);

	world.plans[2]->steps[0].kind = RD_STEP_RECV_REDUCE;
	expect_refused(&world,
		"rank 2, step 0 (recv_reduce chunk 0 from 1 with nowhere into out[0]): "
		"broadcast reduces nothing");
}

Test(checker, refuses_a_flush_of_what_was_not_sent)
{
	struct world world = three("ring", RD_ALL_REDUCE);

	world.plans[0]->steps[3].sender = 4;
	expect_refused(
		&world, "rank 0, step 3 (flush step 4 (chunk 2 to 1)): no earlier step 4 sends");
	world = three("ring", RD_ALL_REDUCE);
	world.plans[0]->steps[3].to = 2;
	expect_refused(&world,
		"rank 0, step 3 (flush step 0 (chunk 2 to 2)): step 0 sends to rank 1, "
		"not to 2");
}

Test(checker, refuses_plans_of_different_calls)
{
	struct world world = three("ring", RD_BROADCAST);

	world.plans[1]->problem.root = 1;
	expect_refused(&world, "rank 1: its plan is for another call than rank 0's");
	world = three("ring", RD_BROADCAST);
	world.plans[1]->parts = 2;
	expect_refused(&world, "rank 1: its plan is for another call than rank 0's");
	world = three("ring", RD_BROADCAST);
	world.plans[1]->problem.rank = 2;
	expect_refused(&world, "rank 1 of 3: its plan is for rank 2 of 3");
}

Test(checker, refuses_to_overwrite_what_may_still_be_sent)
{
	struct world world = three("ring", RD_ALL_REDUCE);

	drop_step(world.plans[0], 3);
	expect_refused(&world,
		"rank 0, step 3 (forward chunk 2 from 2 to 1, keep in out[2]): it "
		"overwrites what step 0 may still be sending, with no flush between");
}

Test(checker, refuses_to_read_an_input_that_is_overwritten_in_place)
{
	struct world world = three("ring", RD_ALL_REDUCE);
	struct rd_plan *plan = world.plans[0];

	/* out[0] has the sum since step 2. */
	plan->steps[3] = (struct rd_step){
		.kind = RD_STEP_COPY, .from = { RD_IN, 0 }, .into = { RD_OUT, 1 }
	};
	expect_refused(&world,
		"rank 0, step 3 (copy chunk 0, in[0], to out[1]): in place, step 2 has "
		"overwritten this input");
}

Test(checker, refuses_to_read_what_was_never_written)
{
	struct world world = three("ring", RD_ALL_REDUCE);

	world.plans[1]->steps[0].from.memory = RD_OUT;
	expect_refused(&world,
		"rank 1, step 0 (send chunk 0, out[0], to 2): it reads what no step has written");
}

Test(checker, refuses_to_read_another_chunk_than_the_step_says)
{
	struct world world = three("ring", RD_ALL_REDUCE);

	world.plans[1]->steps[0].from.chunk = 2;
	expect_refused(&world,
		"rank 1, step 0 (send chunk 0, in[2], to 2): it reads another chunk than it says");
	world = three("ring", RD_ALL_REDUCE);
	world.plans[0]->steps[5] = (struct rd_step){
		.kind = RD_STEP_COPY, .chunk = 1, .from = { RD_OUT, 2 }, .into = { RD_OUT, 1 }
	};
	expect_refused(&world,
		"rank 0, step 5 (copy chunk 1, out[2], to out[1]): it reads where chunk "
		"2 lies");
}

Test(checker, refuses_a_message_that_is_not_what_its_receiver_expects)
{
	struct world world = three("ring", RD_ALL_REDUCE);

	world.plans[1]->steps[5].chunk = 1;
	expect_refused(&world, "rank 1, step 5 (recv chunk 1 from 0 into out[2]): rank 0, step 4, "
			       "sends it chunk 2");
}

Test(checker, refuses_a_message_that_nobody_receives)
{
	struct world world = three("linear", RD_GATHER);

	drop_step(world.plans[0], 1);
	expect_refused(&world,
		"rank 2, step 0 (send chunk 2, in[0], to 0): rank 0 has finished and "
		"never receives it");
}

Test(checker, refuses_a_receive_that_nobody_sends_to)
{
	struct world world = three("linear", RD_GATHER);

	drop_step(world.plans[2], 0);
	expect_refused(&world,
		"rank 0, step 1 (recv chunk 2 from 2 into out[2]): rank 2 has finished "
		"and never sends it");
}

Test(checker, refuses_a_contribution_that_is_counted_twice)
{
	struct world world = three("linear", RD_BARRIER);

	/* Fine for a barrier, which only needs to hear from everyone. */
	for (int rank = 0; rank < 3; rank++) {
		world.plans[rank]->problem.collective = RD_ALL_REDUCE;
		world.plans[rank]->steps[2].last = false;
	}
	expect_refused(&world, "rank 0, step 4 (recv_reduce_last chunk 0 from 1 with out[0] into "
			       "out[0]): rank 0's contribution is already in it");
}

Test(checker, refuses_last_where_it_is_too_early_or_missing)
{
	struct world world = three("ring", RD_ALL_REDUCE);

	world.plans[2]->steps[1].last = true;
	expect_refused(&world,
		"rank 2, step 1 (reduce_forward_last chunk 0 from 1 with in[0] to 0, "
		"keep in nowhere): marked `last`, and rank 0's contribution is missing");
	world = three("ring", RD_ALL_REDUCE);
	world.plans[0]->steps[2].last = false;
	expect_refused(&world,
		"rank 0, step 2 (reduce_forward chunk 0 from 2 with in[0] to 1, keep "
		"in out[0]): the result is complete, and not marked `last`");
	world = three("ring", RD_ALL_REDUCE);
	world.plans[0]->steps[5].last = true;
	expect_refused(&world,
		"rank 0, step 5 (recv chunk 1 from 2 into out[1]): `last` stands on a "
		"step that reduces nothing");
}

Test(checker, refuses_an_output_without_everyone_in_it)
{
	struct world world = three("ring", RD_REDUCE);

	world.plans[2]->steps[0].kind = RD_STEP_FORWARD;
	world.plans[0]->steps[0].last = false;
	expect_refused(&world, "rank 0: rank 2's contribution is not in output chunk 0");
}

Test(checker, refuses_an_output_that_was_not_written_or_is_another_chunk)
{
	struct world world = three("ring", RD_BROADCAST);

	drop_step(world.plans[0], 1);
	expect_refused(&world, "rank 0: output chunk 0 was never written");
	world = three("linear", RD_GATHER);
	world.plans[0]->steps[0].into.chunk = 2;
	world.plans[0]->steps[1].into.chunk = 1;
	expect_refused(&world, "rank 0: output chunk 1 is chunk 2 instead of 1");
}

/* ---- Algorithms ---------------------------------------------------------------------------- */

static void receive_first(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	rd_recv(plan, rd_wrap(rank - 1, size), rd_wrap(rank - 1, size));
	rd_send(plan, rd_wrap(rank + 1, size), rank);
}

Test(checker, tells_who_waits_for_whom_in_a_deadlock)
{
	static const struct rd_algorithm polite = {
		.name = "polite",
		.write = { [RD_ALL_GATHER] = receive_first },
	};

	cr_expect_eq(rd_check_algorithm(&polite, RD_ALL_GATHER, 2, 0, 0, NULL), RONDO_INVALID);
	cr_expect_str_eq(rondo_last_error(),
		"polite, all_gather, 2 ranks, root 0, target 0: deadlock: "
		"rank 0, step 0 (recv chunk 1 from 1 into out[1]), waits for "
		"rank 1, step 0 (recv chunk 0 from 0 into out[0]), waits for rank 0");
	/* Where the circle is too long for a reason, it says so. */
	cr_expect_eq(rd_check_algorithm(&polite, RD_ALL_GATHER, 60, 0, 0, NULL), RONDO_INVALID);
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
	static const struct rd_algorithm greedy = {
		.name = "greedy",
		.write = { [RD_ALL_GATHER] = send_three_then_receive },
	};

	cr_expect_eq(rd_check_algorithm(&greedy, RD_ALL_GATHER, 2, 0, 0, NULL), RONDO_INVALID);
	cr_expect(
		strstr(rondo_last_error(), "deadlock: rank 0, step 2 (send chunk 2, in[2], to 1)"),
		"%s", rondo_last_error());
}

/* In place, the block that comes first lands where the block lies that was sent second. */
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

Test(checker, counts_on_one_message_to_leave_its_memory_unasked_and_no_more)
{
	static const struct rd_algorithm crosswise = {
		.name = "crosswise",
		.write = { [RD_ALL_TO_ALL] = exchange_crosswise },
	};

	cr_expect_eq(rd_check_algorithm(&crosswise, RD_ALL_TO_ALL, 2, 0, 0, NULL), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(),
			  "deadlock: rank 0, step 2 (flush step 1 (chunk 3 to 1))"),
		"%s", rondo_last_error());
}

/* Everyone sends to everyone, and adds up from its next neighbour on. */
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
	static const struct rd_algorithm each_its_own = {
		.name = "each its own",
		.write = { [RD_ALL_REDUCE] = add_from_next },
	};

	cr_expect_eq(rd_check_algorithm(&each_its_own, RD_ALL_REDUCE, 2, 0, 0, NULL), 0,
		"a + b is b + a: %s", rondo_last_error());
	cr_expect_eq(
		rd_check_algorithm(&each_its_own, RD_ALL_REDUCE, 3, 0, 0, NULL), RONDO_INVALID);
	cr_expect_str_eq(rondo_last_error(), "each its own, all_reduce, 3 ranks, root 0, target 0: "
					     "rank 1: chunk 0 is not the same "
					     "bits as on rank 0: combined in another order");
}

static void write_nothing(struct rd_plan *plan)
{
	(void)plan;
}

Test(checker, passes_on_what_the_plan_itself_complains_of)
{
	static const struct rd_algorithm idle = {
		.name = "idle",
		.write = { [RD_BROADCAST] = write_nothing },
	};

	cr_expect_eq(rd_check_algorithm(&idle, RD_BROADCAST, 2, 0, 0, NULL), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "idle, broadcast, 2 ranks, root 0, target 0: idle: "),
		"%s", rondo_last_error());
}
