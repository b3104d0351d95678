#include <criterion/criterion.h>

#include "checker.h"
#include "simulated.h"

/* ---- Wrong plans, one a kind --------------------------------------------------------------- */

/* Three ranks' plans of a collective, right until a test spoils them. */
static struct world three(const char *algorithm, enum rd_collective collective)
{
	struct world world = { .collective = collective, .size = 3, .type = RONDO_F32 };

	cr_assert(world_create(&world, algorithm), "%s", rondo_last_error());
	cr_assert_eq(rd_check_plans(world.plans, 3), 0, "%s", rondo_last_error());
	return world;
}

static void expect_refused(struct world *world, const char *story)
{
	cr_expect_eq(
		rd_check_plans(world->plans, world->size), RONDO_INVALID, "accepted: %s", story);
	cr_expect_str_eq(rondo_last_error(), story);
	world_destroy(world);
}

static void drop_step(struct rd_plan *plan, int dropped)
{
	memmove(&plan->steps[dropped], &plan->steps[dropped + 1],
		(plan->step_count - dropped - 1) * sizeof(*plan->steps));
	plan->step_count--;
	for (int i = dropped; i < plan->step_count; i++)
		if (plan->steps[i].sender >= dropped)
			plan->steps[i].sender--;
}

static void swap_steps(struct rd_plan *plan, int first)
{
	struct rd_step step = plan->steps[first];

	plan->steps[first] = plan->steps[first + 1];
	plan->steps[first + 1] = step;
	for (int i = 0; i < plan->step_count; i++) {
		int *sender = &plan->steps[i].sender;

		if (*sender == first || *sender == first + 1)
			*sender = 2 * first + 1 - *sender;
	}
}

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
	struct world world = three("direct", RD_GATHER);

	drop_step(world.plans[0], 1);
	expect_refused(&world,
		"rank 2, step 0 (send chunk 2, in[0], to 0): rank 0 has finished and "
		"never receives it");
}

Test(checker, refuses_a_receive_that_nobody_sends_to)
{
	struct world world = three("direct", RD_GATHER);

	drop_step(world.plans[2], 0);
	expect_refused(&world,
		"rank 0, step 1 (recv chunk 2 from 2 into out[2]): rank 2 has finished "
		"and never sends it");
}

Test(checker, refuses_a_contribution_that_is_counted_twice)
{
	struct world world = three("direct", RD_BARRIER);

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
	world = three("direct", RD_GATHER);
	world.plans[0]->steps[0].into.chunk = 2;
	world.plans[0]->steps[1].into.chunk = 1;
	expect_refused(&world, "rank 0: output chunk 1 is chunk 2 instead of 1");
}

/* ---- Merging ------------------------------------------------------------------------------- */

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
		.collectives = 1 << RD_REDUCE,
		.write_plan = add_and_merge,
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
	struct rd_algorithm ahead = { "ahead", 1 << RD_ALL_REDUCE, .write_plan = send_two_ahead };

	cr_expect_eq(rd_check_algorithm(&ahead, RD_ALL_REDUCE, 3, 0, 0, NULL), 0, "%s",
		rondo_last_error());
	ahead.write_plan = send_three_ahead;
	cr_expect_eq(rd_check_algorithm(&ahead, RD_ALL_REDUCE, 3, 0, 0, NULL), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "deadlock"), "%s", rondo_last_error());
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
		.collectives = 1 << RD_ALL_GATHER,
		.write_plan = receive_first,
	};

	cr_expect_eq(rd_check_algorithm(&polite, RD_ALL_GATHER, 2, 0, 0, NULL), RONDO_INVALID);
	cr_expect_str_eq(rondo_last_error(),
		"polite, all_gather, 2 ranks, root 0, target 0: deadlock: "
		"rank 0, step 0 (recv chunk 1 from 1 into out[1]), waits for "
		"rank 1, step 0 (recv chunk 0 from 0 into out[0]), waits for rank 0");
	/* Where the circle is too long for a story, it says so. */
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
		.collectives = 1 << RD_ALL_GATHER,
		.write_plan = send_three_then_receive,
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
		.collectives = 1 << RD_ALL_TO_ALL,
		.write_plan = exchange_crosswise,
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
		.collectives = 1 << RD_ALL_REDUCE,
		.write_plan = add_from_next,
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
		.collectives = 1 << RD_BROADCAST,
		.write_plan = write_nothing,
	};

	cr_expect_eq(rd_check_algorithm(&idle, RD_BROADCAST, 2, 0, 0, NULL), RONDO_INVALID);
	cr_expect(strstr(rondo_last_error(), "idle, broadcast, 2 ranks, root 0, target 0: idle: "),
		"%s", rondo_last_error());
}

/* ---- Plans of direct access ----------------------------------------------------------------- */

static struct rd_algorithm mapped_by(void (*write_plan)(struct rd_plan *plan))
{
	return (struct rd_algorithm){
		.name = "test",
		.collectives = ~0U,
		.mapped = true,
		.write_plan = write_plan,
	};
}

static int check_written(
	void (*write_plan)(struct rd_plan *plan), enum rd_collective collective, int size)
{
	struct rd_algorithm algorithm = mapped_by(write_plan);

	return rd_check_algorithm(&algorithm, collective, size, 0, 0, NULL);
}

/* The story begins by naming the algorithm and the call. */
static void expect_written_refused(void (*write_plan)(struct rd_plan *plan),
	enum rd_collective collective, int size, const char *story)
{
	const char *told = "";

	cr_expect_eq(
		check_written(write_plan, collective, size), RONDO_INVALID, "accepted: %s", story);
	told = strstr(rondo_last_error(), "target 0: ");
	cr_expect(
		told && strcmp(told + strlen("target 0: "), story) == 0, "%s", rondo_last_error());
}

Test(checker, refuses_a_signal_that_nobody_awaits)
{
	struct world world = three("mapped", RD_BROADCAST);

	/* copy, signal 1, signal 2, await 1, await 2 */
	drop_step(world.plans[0], 2);
	expect_refused(
		&world, "rank 1, step 1 (signal 0): rank 0 has finished and never awaits it");
}

Test(checker, refuses_to_await_what_nobody_signals)
{
	struct world world = three("mapped", RD_BROADCAST);

	drop_step(world.plans[1], 1);
	expect_refused(
		&world, "rank 0, step 2 (await 1): rank 1 has finished and never signals it");
}

Test(checker, refuses_a_rank_that_ends_while_its_memory_is_read)
{
	struct world world = three("mapped", RD_BROADCAST);

	drop_step(world.plans[1], 1);
	drop_step(world.plans[0], 2);
	expect_refused(&world, "rank 0 may end while rank 1 may still be reading its memory (step "
			       "0, fetch chunk 0, in[0] of 0, to out[0])");
}

Test(checker, refuses_a_rank_that_ends_while_its_memory_is_written)
{
	struct world world = three("mapped", RD_ALL_REDUCE);

	/* combine, signal 1, signal 2, await ...: rank 0 tells rank 1 too early. */
	swap_steps(world.plans[0], 0);
	expect_refused(&world,
		"rank 1 may end while rank 0 may still be writing its memory (step 1, combine "
		"chunk 0, in[0] of all, into out[0] of all)");
}

Test(checker, refuses_direct_access_by_an_algorithm_that_is_not_marked_mapped)
{
	struct world world = three("mapped", RD_BROADCAST);

	world.plans[1]->mapped = false;
	expect_refused(&world, "rank 1, step 0 (fetch chunk 0, in[0] of 0, to out[0]): its "
			       "algorithm is not marked `mapped`");
	world = three("mapped", RD_BROADCAST);
	world.plans[0]->mapped = false;
	expect_refused(&world, "rank 0, step 0 (signal 1): its algorithm is not marked `mapped`");
}

Test(checker, refuses_a_fetch_of_another_chunk_or_from_another_rank_than_has_it)
{
	struct world world = three("mapped", RD_SCATTER);

	world.plans[1]->steps[0].from.chunk = 2;
	expect_refused(&world, "rank 1, step 0 (fetch chunk 1, in[2] of 0, to out[0]): rank 0 does "
			       "not have chunk 1 there");
	world = three("mapped", RD_SCATTER);
	world.plans[1]->steps[0].peer = 2;
	expect_refused(&world, "rank 1, step 0 (fetch chunk 1, in[1] of 2, to out[0]): rank 2 does "
			       "not have chunk 1 there");
	world = three("mapped", RD_SCATTER);
	world.plans[1]->steps[0].chunk = 2;
	world.plans[1]->steps[0].from.chunk = 2;
	expect_refused(&world, "rank 1: output chunk 0 is chunk 2 instead of 1");
	world = three("mapped", RD_SCATTER);
	world.plans[1]->steps[0].peer = 1;
	expect_refused(&world, "rank 1, step 0 (fetch chunk 1, in[1] of 1, to out[0]): no link "
			       "leads from a rank to itself");
	world = three("mapped", RD_SCATTER);
	world.plans[1]->steps[0].from.chunk = -1;
	expect_refused(&world, "rank 1, step 0 (fetch chunk 1, in[-1] of 0, to out[0]): it reads "
			       "what is no input");
}

Test(checker, refuses_direct_access_to_what_is_not_there)
{
	struct world world = three("mapped", RD_ALL_GATHER);

	world.plans[1]->steps[0].into.chunk = 3;
	expect_refused(&world,
		"rank 1, step 0 (fetch chunk 2, in[0] of 2, to out[3]): it writes to "
		"a chunk that is not one of the 3 there");
	world = three("mapped", RD_ALL_GATHER);
	world.plans[1]->steps[0].into.memory = RD_SCRATCH;
	expect_refused(&world, "rank 1, step 0 (fetch chunk 2, in[0] of 2, to scratch[2]): it "
			       "writes to what is no output");
	world = three("mapped", RD_REDUCE);
	world.plans[1]->steps[0].into.chunk = 3;
	expect_refused(&world, "rank 1, step 0 (combine chunk 1, in[1] of all, into out[3] of 0): "
			       "rank 0 has 3 output chunks");
	world = three("mapped", RD_REDUCE);
	world.plans[1]->steps[0].to = 2;
	expect_refused(&world, "rank 1, step 0 (combine chunk 1, in[1] of all, into out[1] of 2): "
			       "rank 2 has 0 output chunks");
	world = three("mapped", RD_REDUCE);
	world.plans[0]->steps[0].to = -1;
	expect_refused(&world,
		"rank 0, step 0 (combine chunk 0, in[0] of all, into out[0] of all): "
		"rank 1 has 0 output chunks");
	world = three("mapped", RD_REDUCE);
	world.plans[1]->steps[0].to = 3;
	expect_refused(&world, "rank 1, step 0 (combine chunk 1, in[1] of all, into out[1] of 3): "
			       "there is no rank 3");
}

Test(checker, refuses_to_combine_other_chunks_than_the_step_says)
{
	struct world world = three("mapped", RD_ALL_REDUCE);

	world.plans[1]->steps[0].from.chunk = 2;
	expect_refused(&world,
		"rank 1, step 0 (combine chunk 1, in[2] of all, into out[1] of all): "
		"rank 0 does not have chunk 1 there");
	world = three("mapped", RD_ALL_REDUCE);
	world.plans[1]->steps[0].last = false;
	expect_refused(&world,
		"rank 1, step 0 (combine chunk 1, in[1] of all, into out[1] of all): "
		"the result is complete, and not marked `last`");
	world = three("mapped", RD_BROADCAST);
	world.plans[1]->steps[0].kind = RD_STEP_COMBINE;
	expect_refused(&world,
		"rank 1, step 0 (combine chunk 0, in[0] of all, into out[0] of all): "
		"broadcast reduces nothing");
}

Test(checker, refuses_signals_that_name_a_chunk_and_data_where_a_signal_is_awaited)
{
	struct world world = three("mapped", RD_BROADCAST);

	world.plans[0]->steps[0].chunk = 0;
	expect_refused(&world,
		"rank 0, step 0 (signal 1): a signal carries nothing, but it names a chunk");
	world = three("mapped", RD_BROADCAST);
	world.plans[0]->steps[0].kind = RD_STEP_SEND;
	world.plans[0]->steps[0].from = (struct rd_where){ RD_IN, 0 };
	world.plans[0]->steps[0].chunk = 0;
	expect_refused(&world, "rank 1, step 3 (await 0): rank 0, step 0, sends it chunk 0");
	world = three("mapped", RD_BROADCAST);
	world.plans[1]->steps[3] = world.plans[1]->steps[0];
	world.plans[1]->steps[3].kind = RD_STEP_RECV;
	expect_refused(&world,
		"rank 1, step 3 (recv chunk 0 from 0 into out[0]): rank 0, step 0, only signals");
}

static void combine_alone(struct rd_plan *plan)
{
	rd_combine(plan, 0, 0);
}

Test(checker, refuses_to_combine_where_there_is_one_rank)
{
	expect_written_refused(combine_alone, RD_ALL_REDUCE, 1,
		"rank 0, step 0 (combine chunk 0, in[0] of all, into out[0] of 0): there is no "
		"second rank");
}

static void all_signal_all(struct rd_plan *plan)
{
	for (int peer = 0; peer < plan->problem.size; peer++)
		if (peer != plan->problem.rank)
			rd_signal(plan, peer);
	for (int peer = 0; peer < plan->problem.size; peer++)
		if (peer != plan->problem.rank)
			rd_await(plan, peer);
}

static void await_then_signal(struct rd_plan *plan)
{
	int peer = !plan->problem.rank;

	rd_combine(plan, plan->problem.rank, plan->problem.rank);
	rd_await(plan, peer);
	rd_signal(plan, peer);
}

Test(checker, tells_who_awaits_whom_in_a_deadlock)
{
	expect_written_refused(await_then_signal, RD_REDUCE_SCATTER, 2,
		"deadlock: rank 0, step 1 (await 1), waits for rank 1, step 1 (await 0), waits for "
		"rank 0");
}

static void combine_and_expect_nothing(struct rd_plan *plan)
{
	rd_plan_parts(plan, plan->problem.size);
	rd_combine(plan, -1, plan->problem.rank);
	all_signal_all(plan);
}

Test(checker, refuses_to_copy_the_input_over_what_another_rank_wrote)
{
	expect_written_refused(combine_and_expect_nothing, RD_ALL_REDUCE, 3,
		"rank 0: rank 1's contribution is not in output chunk 1");
}

static void expect_too_much(struct rd_plan *plan)
{
	rd_plan_parts(plan, plan->problem.size);
	if (plan->problem.rank > 0)
		rd_combine(plan, -1, plan->problem.rank);
	for (int share = 0; share < plan->problem.size; share++)
		rd_expect(plan, share);
	all_signal_all(plan);
}

Test(checker, refuses_to_expect_what_nobody_writes)
{
	expect_written_refused(
		expect_too_much, RD_ALL_REDUCE, 3, "rank 0: output chunk 0 was never written");
}

Test(checker, refuses_two_ranks_that_write_to_the_same_memory)
{
	struct world world = three("mapped", RD_ALL_REDUCE);

	world.plans[1]->steps[0].into.chunk = 0;
	expect_refused(&world,
		"rank 1, step 0 (combine chunk 1, in[1] of all, into out[0] of all): it "
		"writes out[0] of rank 0, which rank 0 may still be writing (step 0, "
		"combine chunk 0, in[0] of all, into out[0] of all)");
}

/* Each for itself: right out of place, and wrong in place. */
static void combine_for_oneself(struct rd_plan *plan)
{
	rd_combine(plan, plan->problem.rank, 0);
	all_signal_all(plan);
}

Test(checker, refuses_a_race_that_exists_in_place_alone)
{
	expect_written_refused(combine_for_oneself, RD_ALL_REDUCE, 2,
		"rank 1, step 0 (combine chunk 0, in[0] of all, into out[0] of 1): in place, it "
		"reads in[0] of rank 0, which rank 0 may still be writing (step 0, combine chunk "
		"0, "
		"in[0] of all, into out[0] of 0)");
}

static void combine_in_turn(struct rd_plan *plan)
{
	if (plan->problem.rank == 1)
		rd_await(plan, 0);
	rd_combine(plan, plan->problem.rank, 0);
	if (plan->problem.rank == 0)
		rd_signal(plan, 1);
	all_signal_all(plan);
}

Test(checker, refuses_to_read_another_ranks_input_that_is_overwritten_in_place)
{
	expect_written_refused(combine_in_turn, RD_ALL_REDUCE, 2,
		"rank 1, step 1 (combine chunk 0, in[0] of all, into out[0] of 1): in place, rank "
		"0, step 0, has overwritten in[0] of rank 0");
}

/* A rank reads what others may be writing to its own output: it has not waited for them. */
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
	all_signal_all(plan);
}

Test(checker, refuses_to_send_what_another_rank_may_still_be_writing)
{
	expect_written_refused(copy_too_early, RD_ALL_REDUCE, 2,
		"rank 1, step 0 (send chunk 0, out[0], to 0): it reads out[0] of rank 1, which "
		"rank "
		"0 may still be writing (step 0, combine chunk 0, in[0] of all, into out[0] of "
		"all)");
}

/* The root's input is sent, and in place overwritten by who received it. */
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
	struct rd_algorithm algorithm = mapped_by(send_and_be_written_to);
	struct rd_step flush = { .kind = RD_STEP_FLUSH, .peer = -1, .to = 1, .sender = 0 };
	struct rd_plan *plans[2];

	expect_written_refused(send_and_be_written_to, RD_REDUCE, 2,
		"rank 1, step 2 (combine chunk 0, in[0] of all, into out[0] of 0): in place, it "
		"writes out[0] of rank 0, which rank 0 may still be sending (step 0, send chunk 0, "
		"in[0], to 1)");
	/* With a FLUSH before the signal it is right. */
	for (int rank = 0; rank < 2; rank++)
		cr_assert_eq(rd_plan_create(&plans[rank], &algorithm,
				     &(struct rd_problem){ RD_REDUCE, rank, 2, 0, 0, NULL }),
			0);
	cr_assert_lt(plans[0]->step_count, plans[0]->capacity);
	memmove(plans[0]->steps + 2, plans[0]->steps + 1,
		(plans[0]->step_count++ - 1) * sizeof(flush));
	plans[0]->steps[1] = flush;
	cr_expect_eq(rd_check_plans(plans, 2), 0, "%s", rondo_last_error());
	for (int rank = 0; rank < 2; rank++)
		rd_plan_destroy(plans[rank]);
}

static void send_then_combine(struct rd_plan *plan)
{
	if (plan->problem.rank == 0) {
		rd_send(plan, 1, 0);
		rd_combine(plan, 0, 0);
	} else {
		rd_recv(plan, 0, 0);
	}
	all_signal_all(plan);
}

Test(checker, refuses_to_combine_over_what_the_rank_may_still_be_sending)
{
	expect_written_refused(send_then_combine, RD_REDUCE, 2,
		"rank 0, step 1 (combine chunk 0, in[0] of all, into out[0] of 0): it overwrites "
		"what step 0 may still be sending, with no flush between");
}

/* In place both lie at the same address: what is sent, and what is fetched. */
static void send_then_fetch(struct rd_plan *plan)
{
	if (plan->problem.rank == 0) {
		rd_send(plan, 1, 1);
		rd_fetch(plan, 1, 2);
	} else {
		rd_recv(plan, 0, 1);
	}
	all_signal_all(plan);
}

Test(checker, refuses_to_fetch_over_what_the_rank_may_still_be_sending)
{
	struct rd_algorithm algorithm = mapped_by(send_then_fetch);
	struct rd_plan *plans[2];

	for (int rank = 0; rank < 2; rank++)
		cr_assert_eq(rd_plan_create(&plans[rank], &algorithm,
				     &(struct rd_problem){ RD_ALL_TO_ALL, rank, 2, 0, 0, NULL }),
			0);
	cr_assert_eq(plans[0]->steps[1].kind, RD_STEP_FLUSH);
	drop_step(plans[0], 1);
	cr_expect_eq(rd_check_plans(plans, 2), RONDO_INVALID);
	cr_expect_str_eq(rondo_last_error(),
		"rank 0, step 1 (fetch chunk 2, in[0] of 1, to out[1]): it overwrites what step 0 "
		"may still be sending, with no flush between");
	for (int rank = 0; rank < 2; rank++)
		rd_plan_destroy(plans[rank]);
}

/* Rank 1 combines, and sends rank 0 the result, which in place lands on what it has read. */
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

static void send_back_unasked(struct rd_plan *plan)
{
	send_back(plan, false);
}

static void send_back_after_a_signal(struct rd_plan *plan)
{
	send_back(plan, true);
}

Test(checker, counts_on_messages_to_land_before_they_have_come_whole)
{
	expect_written_refused(send_back_unasked, RD_ALL_REDUCE, 2,
		"rank 0, step 0 (recv chunk 0 from 1 into out[0]): in place, it writes out[0] of "
		"rank 0, which rank 1 may still be reading (step 0, combine chunk 0, in[0] of all, "
		"into out[0] of 1)");
	cr_expect_eq(check_written(send_back_after_a_signal, RD_ALL_REDUCE, 2), 0, "%s",
		rondo_last_error());
}

/* Rank 0 hears from rank 1 alone that all have fetched. */
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

Test(checker, knows_what_a_signal_says_of_third_ranks)
{
	cr_expect_eq(
		check_written(pass_on_patiently, RD_BROADCAST, 3), 0, "%s", rondo_last_error());
	expect_written_refused(pass_on_hastily, RD_BROADCAST, 3,
		"rank 0 may end while rank 2 may still be reading its memory (step 0, fetch chunk "
		"0, in[0] of 0, to out[0])");
}

/* ---- Mutants ------------------------------------------------------------------------------- */

/*
 * Each step of each right plan is changed in each of these ways. The checker must refuse the
 * mutant; where it does not, the mutant must be right on real numbers all the same.
 */
enum change {
	PEER,
	TO,
	CHUNK,
	OTHER,
	KIND,
	LAST,
	FROM,
	FROM_MEMORY,
	INTO,
	INTO_MEMORY,
	SENDER,
	DROP,
	SWAP, /* with the next */
	CHANGES
};

static const char *const change_names[CHANGES] = { "peer", "to", "chunk", "other", "kind", "last",
	"from", "from memory", "into", "into memory", "sender", "drop", "swap" };

static bool is_direct(const struct rd_step *step)
{
	return step->kind == RD_STEP_FETCH || step->kind == RD_STEP_COMBINE ||
	       step->kind == RD_STEP_SWAP || step->kind == RD_STEP_SPREAD;
}

/* Ways to make a change to a step: how many values there are to go round. */
static int ways(const struct rd_plan *plan, int i, enum change change)
{
	const struct rd_step *step = &plan->steps[i];

	switch (change) {
	case PEER:
		return rd_step_takes(step) || step->kind == RD_STEP_FETCH ||
				       step->kind == RD_STEP_SWAP || step->kind == RD_STEP_SPREAD
			       ? plan->problem.size
			       : 0;
	case TO:
		if (step->kind == RD_STEP_COMBINE)
			return plan->problem.size + 1;
		return rd_step_puts(step) ? plan->problem.size : 0;
	case CHUNK:
		return step->kind == RD_STEP_FLUSH ? 0 : rd_blocks(&plan->problem) * plan->parts;
	case OTHER:
		return step->kind == RD_STEP_SWAP ? rd_blocks(&plan->problem) * plan->parts : 0;
	case KIND:
		return RD_STEP_SPREAD + 1;
	case LAST:
		return rd_step_reduces(step) || step->kind == RD_STEP_COMBINE ? 2 : 0;
	case FROM:
		/* An input of another rank may have more chunks than ours. */
		if (is_direct(step))
			return rd_blocks(&plan->problem) * plan->parts + 1;
		return rd_step_reads(step) ? rd_plan_chunks(plan, step->from.memory) : 0;
	case FROM_MEMORY:
		return rd_step_reads(step) || is_direct(step) ? RD_SCRATCH + 1 : 0;
	case INTO:
		if (is_direct(step))
			return rd_blocks(&plan->problem) * plan->parts + 1;
		return rd_step_writes(step) ? rd_plan_chunks(plan, step->into.memory) : 0;
	case INTO_MEMORY:
		return rd_step_receives(step) || step->kind == RD_STEP_COPY || is_direct(step)
			       ? RD_SCRATCH + 1
			       : 0;
	case SENDER:
		return step->kind == RD_STEP_FLUSH ? plan->step_count : 0;
	case DROP:
		return 2;
	default:
		return i + 1 < plan->step_count ? 2 : 0;
	}
}

static int turned(int value, int way, int values)
{
	return (value + way) % values;
}

/* way: 1 to ways() - 1; 0 would leave the step as it is. */
static void mutate(struct rd_plan *plan, int i, enum change change, int way)
{
	struct rd_step *step = &plan->steps[i];
	int values = ways(plan, i, change);

	switch (change) {
	case PEER:
		step->peer = turned(step->peer, way, values);
		break;
	case TO:
		if (step->kind == RD_STEP_COMBINE)
			step->to = turned(step->to + 1, way, values) - 1;
		else
			step->to = turned(step->to, way, values);
		break;
	case CHUNK:
		step->chunk = turned(step->chunk, way, values);
		break;
	case OTHER:
		step->other = turned(step->other, way, values);
		break;
	case KIND:
		step->kind = turned(step->kind, way, values);
		break;
	case LAST:
		step->last = !step->last;
		break;
	case FROM:
		step->from.chunk = turned(step->from.chunk, way, values);
		break;
	case FROM_MEMORY:
		step->from.memory = turned(step->from.memory, way, values);
		break;
	case INTO:
		step->into.chunk = turned(step->into.chunk, way, values);
		break;
	case INTO_MEMORY:
		step->into.memory = turned(step->into.memory, way, values);
		break;
	case SENDER:
		step->sender = turned(step->sender, way, values);
		break;
	case DROP:
		drop_step(plan, i);
		break;
	default:
		swap_steps(plan, i);
	}
}

static bool runs_right(struct world *world, bool zero_copy, uint64_t seed)
{
	struct rd_simulation set = {
		.size = world->size,
		.channels = 2,
		.piece_size = 64,
		.slots = 2,
		.zero_copy = zero_copy,
		.seed = seed,
		.latency_ns = 1000,
		.jitter_ns = 100000,
		.dead_rank = -1,
	};
	struct rd_simulated simulated;
	bool right = !world_simulate(world, &set, &simulated);

	for (int rank = 0; rank < world->size && simulated.errors; rank++)
		right &= !simulated.errors[rank];
	rd_simulated_finish(&simulated);
	return right && world_is_right(world);
}

/* Nobody may get out of a barrier that one rank never enters. */
static bool waits_for_everyone(struct world *world)
{
	struct rd_simulation set = {
		.size = world->size, .channels = 1, .piece_size = 64, .slots = 2, .latency_ns = 1000
	};
	bool all_failed = true;

	for (int absent = 0; absent < world->size; absent++) {
		struct rd_simulated simulated;

		set.dead_rank = absent;
		world_simulate(world, &set, &simulated);
		for (int rank = 0; rank < world->size; rank++)
			all_failed &= simulated.errors[rank] != 0;
		rd_simulated_finish(&simulated);
	}
	return all_failed;
}

/* The world's memory is laid out anew for each run: in place the input does not survive. */
static void lay_out_again(struct world *world, bool in_place)
{
	world->in_place = in_place;
	for (int rank = 0; rank < world->size; rank++) {
		free(world->memory[2 * rank]);
		free(world->memory[2 * rank + 1]);
		world_lay_out(world, rank);
	}
}

static bool is_right_on_numbers(struct world *world)
{
	for (int times = 0; times < 16; times++) {
		lay_out_again(world, times & 1);
		if (!runs_right(world, times >> 1 & 1, times))
			return false;
	}
	return world->collective != RD_BARRIER || waits_for_everyone(world);
}

/* Two steps that do not meet may change places, nothing is averaged in a barrier, and what is
   passed on may be stored as well where nobody looks; and of two ranks, who spreads what is the
   other's fetches it. All else is wrong, whatever numbers come of it. */
static bool may_be_accepted(
	const struct world *world, enum change change, const struct rd_step *original)
{
	return change == SWAP || (change == LAST && world->collective == RD_BARRIER) ||
	       (change == KIND && world->size == 2 &&
		       (original->kind == RD_STEP_SPREAD || original->kind == RD_STEP_FETCH)) ||
	       (change == INTO_MEMORY && original->into.memory == RD_NOWHERE);
}

struct tally {
	int mutants, accepted;
};

static void try_mutant(
	struct world *world, int rank, int i, enum change change, int way, struct tally *tally)
{
	struct rd_plan *plan = world->plans[rank];
	struct rd_step saved[256];
	int step_count = plan->step_count;

	memcpy(saved, plan->steps, step_count * sizeof(*saved));
	mutate(plan, i, change, way);
	tally->mutants++;
	if (!rd_check_plans(world->plans, world->size)) {
		tally->accepted++;
		cr_expect(may_be_accepted(world, change, &saved[i]),
			"accepted: %s of %d, rank %d, step %d, %s",
			rd_collective_name(world->collective), world->size, rank, i,
			change_names[change]);
		cr_expect(is_right_on_numbers(world),
			"accepted: %s of %d, root %d, rank %d, step %d, %s changed by %d: %s",
			rd_collective_name(world->collective), world->size, world->root, rank, i,
			change_names[change], way, world->story);
	}
	memcpy(plan->steps, saved, step_count * sizeof(*saved));
	plan->step_count = step_count;
}

static void try_mutants_of(struct world *world, struct tally *tally)
{
	for (int rank = 0; rank < world->size; rank++)
		for (int i = 0; i < world->plans[rank]->step_count; i++)
			for (int change = 0; change < CHANGES; change++)
				for (int way = 1; way < ways(world->plans[rank], i, change); way++)
					try_mutant(world, rank, i, change, way, tally);
}

static void try_mutants(const struct rd_algorithm *algorithm, enum rd_collective collective,
	int size, int root, struct tally *tally)
{
	struct world world = { .collective = collective,
		.size = size,
		.root = root,
		.type = RONDO_I64,
		.op = RONDO_AVG,
		.count = collective == RD_BARRIER ? 0 : 50 };
	struct rd_problem problem;

	if (collective == RD_TRANSFER)
		world.target = rd_wrap(root + 1, size);
	problem = world_problem(&world, 0);
	if (!rd_algorithm_can(algorithm, &problem))
		return;
	cr_assert(world_create(&world, algorithm->name), "%s", rondo_last_error());
	cr_assert(is_right_on_numbers(&world), "%s", world.story);
	try_mutants_of(&world, tally);
	world_destroy(&world);
}

Test(checker, refuses_every_mutant_of_a_right_plan_that_gives_wrong_numbers, .timeout = 120)
{
	struct tally tally = { 0 };

	for (int i = 0; rd_algorithms[i]; i++)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
			for (int size = 2; size <= 5; size++)
				for (int root = 0; root < size; root += size - 1)
					try_mutants(rd_algorithms[i], c, size, root, &tally);
	cr_expect_gt(tally.mutants, 10000);
	cr_expect_lt(tally.accepted, tally.mutants / 20, "%d of %d", tally.accepted, tally.mutants);
}
