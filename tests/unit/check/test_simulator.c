#include <criterion/criterion.h>

#include "any_layout.h"
#include "simulated.h"

static uint64_t seed = 1;

/* 0 to most - 1; xorshift64 (G. Marsaglia, "Xorshift RNGs", 2003). */
static unsigned any(unsigned most)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)(seed >> 33) % most;
}

static const struct rd_simulation plain = {
	.channels = 1,
	.piece_size = 256,
	.slots = 2,
	.seed = 1,
	.latency_ns = 1000,
	.jitter_ns = 0,
	.byte_ns = 0.1,
	.dead_rank = -1,
};

static struct rd_simulation any_simulation(int size)
{
	static const size_t pieces[] = { 64, 128, 512, 4096 };
	struct rd_simulation set = plain;

	set.size = size;
	set.channels = 1 + any(3);
	set.piece_size = pieces[any(4)];
	set.slots = 2 + any(3);
	set.zero_copy = any(2);
	set.repeated = any(2);
	set.seed = any(1 << 30);
	set.jitter_ns = any(2) ? 20000 : 0;
	set.byte_ns = any(4) * 0.3;
	return set;
}

/* Valid until the next is drawn. */
static const struct rd_layout *any_lay(int size)
{
	static struct any_layout drawn;

	return any(2) ? layout_any(&drawn, size, 1 + any(size), 1 + any(1 << 20)) : NULL;
}

static struct simulated_job any_world(enum rd_collective collective, int size)
{
	struct simulated_job job = { .collective = collective, .size = size };

	if (rd_collective_has_root(collective))
		job.root = any(size);
	if (collective == RD_TRANSFER)
		job.target = any(size);
	job.type = any(2) ? RONDO_I64 : RONDO_F32;
	job.op = (rondo_op[]){ RONDO_SUM, RONDO_MIN, RONDO_MAX, RONDO_AVG }[any(4)];
	job.in_place = any(2);
	job.layout = any_lay(size);
	return job;
}

static void expect_right_by(
	struct simulated_job *job, const char *algorithm, const struct rd_simulation *set)
{
	struct rd_simulated simulated;

	cr_assert(job_create(job, algorithm), "%s", rondo_last_error());
	cr_expect_eq(job_simulate(job, set, &simulated), 0, "%s", rondo_last_error());
	for (int rank = 0; rank < job->size; rank++)
		cr_expect_eq(simulated.errors[rank], 0, "%s: rank %d of %d, %s: %s", algorithm,
			rank, job->size, rd_collective_name(job->collective),
			rondo_error_text(simulated.errors[rank]));
	cr_expect(job_is_right(job), "%s: %s (%zu elements, seed %llu, %s, %s)", algorithm,
		job->reason, job->count, (unsigned long long)set->seed,
		job->in_place ? "in place" : "out of place", set->zero_copy ? "zero copy" : "copy");
	rd_simulated_finish(&simulated);
	job_destroy(job);
}

static bool can(const struct simulated_job *job, const struct rd_algorithm *algorithm)
{
	return job_algorithm(job, algorithm->name);
}

static void expect_right(struct simulated_job *job, const struct rd_simulation *set)
{
	for (int i = 0; rd_algorithms[i]; i++)
		if (can(job, rd_algorithms[i]))
			expect_right_by(job, rd_algorithms[i]->name, set);
}

static void expect_collective_right(enum rd_collective collective, int size)
{
	static const size_t counts[] = { 0, 1, 7, 1023 };

	for (int i = 0; i < 4; i++) {
		for (int times = 0; times < 12; times++) {
			struct rd_simulation set = any_simulation(size);
			struct simulated_job job = any_world(collective, size);

			job.count = collective == RD_BARRIER ? 0 : counts[i];
			/* Each of the four ways that matter most is tried three times. */
			job.in_place = times & 1;
			set.zero_copy = times >> 1 & 1;
			expect_right(&job, &set);
		}
	}
}

Test(simulator, every_collective_gives_the_right_numbers_over_jittery_links, .timeout = 240)
{
	static const int sizes[] = { 1, 2, 3, 4, 5, 8 };

	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
		for (int i = 0; i < 6; i++)
			expect_collective_right(c, sizes[i]);
}

/* The executor goes on with them wherever a message or room has not come. */
Test(simulator, short_calls_that_are_repeated_give_the_right_numbers, .timeout = 60)
{
	for (int times = 0; times < 12; times++)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
			for (int size = 2; size <= 4; size++) {
				struct rd_simulation set = any_simulation(size);
				struct simulated_job job = any_world(c, size);

				job.count = c == RD_BARRIER ? 0 : 7;
				set.channels = 1;
				set.repeated = true;
				expect_right(&job, &set);
			}
}

Test(simulator, runs_many_ranks, .timeout = 240)
{
	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++) {
		struct rd_simulation set = any_simulation(33);
		struct simulated_job job = any_world(c, 33);

		job.count = c == RD_BARRIER ? 0 : 1023;
		expect_right(&job, &set);
	}
}

static void run(struct simulated_job job, const char *algorithm, const struct rd_simulation *set,
	struct rd_simulated *simulated)
{
	cr_assert(job_create(&job, algorithm), "%s", rondo_last_error());
	cr_assert_eq(job_simulate(&job, set, simulated), 0, "%s", rondo_last_error());
	job_destroy(&job);
}

Test(simulator, the_same_seed_gives_the_same_run_and_another_seed_another)
{
	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++) {
		struct rd_simulation set = any_simulation(5);
		struct simulated_job job = any_world(c, 5);
		struct rd_simulated first, again, other;

		job.count = c == RD_BARRIER ? 0 : 1023;
		job.root = 0;
		job.target = c == RD_TRANSFER ? 3 : 0;
		set.jitter_ns = 1 << 20;
		run(job, NULL, &set, &first);
		run(job, NULL, &set, &again);
		set.seed++;
		run(job, NULL, &set, &other);
		cr_expect_eq(first.end_ns, again.end_ns);
		cr_expect_eq(first.messages, again.messages);
		cr_expect_eq(first.bytes, again.bytes);
		cr_expect_neq(first.end_ns, other.end_ns, "%s", rd_collective_name(c));
		cr_expect_eq(first.bytes, other.bytes);
		rd_simulated_finish(&first);
		rd_simulated_finish(&again);
		rd_simulated_finish(&other);
	}
}

/* 4 KiB from one rank to another, in 16 messages. */
static struct rd_simulated transfer(int slots, double byte_ns)
{
	struct rd_simulation set = plain;
	struct simulated_job job = {
		.collective = RD_TRANSFER, .size = 2, .target = 1, .type = RONDO_F32, .count = 1024
	};
	struct rd_simulated simulated;

	set.size = 2;
	set.slots = slots;
	set.byte_ns = byte_ns;
	run(job, NULL, &set, &simulated);
	return simulated;
}

Test(simulator, a_byte_occupies_its_link_direction_for_its_time)
{
	/* The sender never waits for room. */
	struct rd_simulated simulated = transfer(100, 3);

	cr_expect_eq(simulated.messages, 16);
	cr_expect_eq(simulated.bytes, 4096);
	cr_expect_eq(simulated.end_ns, 4096 * 3 + 1000);
	rd_simulated_finish(&simulated);
}

Test(simulator, a_sender_waits_for_room)
{
	struct rd_simulated simulated = transfer(2, 0);

	/* 16 messages, 2 at a time: 8 times there, 7 times back. */
	cr_expect_eq(simulated.end_ns, 15 * 1000);
	rd_simulated_finish(&simulated);
}

/* ---- Death --------------------------------------------------------------------------------- */

/* Whether the rank's error names another rank. */
static bool names_another(const struct rd_simulated *simulated, int rank, int size)
{
	int culprit = simulated->culprits[rank];

	return culprit >= 0 && culprit < size && culprit != rank;
}

static void expect_every_survivor_ends(struct simulated_job *job, const char *algorithm,
	const struct rd_simulation *set, int *failed)
{
	struct rd_simulated simulated;

	cr_assert(job_create(job, algorithm), "%s", rondo_last_error());
	cr_expect_eq(job_simulate(job, set, &simulated), 0, "%s", rondo_last_error());
	for (int rank = 0; rank < job->size; rank++) {
		int error = simulated.errors[rank];

		if (!error) {
			cr_expect(job_rank_is_right(job, rank), "%s", job->reason);
			continue;
		}
		++*failed;
		if (rank == set->dead_rank)
			cr_expect_eq(error, RONDO_DIED);
		else
			cr_expect_eq(error, RONDO_BROKEN);
		cr_expect(rank == set->dead_rank || names_another(&simulated, rank, job->size));
	}
	rd_simulated_finish(&simulated);
	job_destroy(job);
}

Test(simulator, after_a_death_at_any_moment_each_survivor_fails_or_is_right, .timeout = 60)
{
	int failed = 0, runs = 0;

	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++) {
		for (int times = 0; times < 150; times++) {
			int size = 2 + any(5);
			struct rd_simulation set = any_simulation(size);
			struct simulated_job job = any_world(c, size);

			job.count = c == RD_BARRIER ? 0 : 700;
			set.dead_rank = any(size);
			set.death_ns = any(times % 2 ? 100000 : 4000);
			for (int i = 0; rd_algorithms[i]; i++) {
				if (!can(&job, rd_algorithms[i]))
					continue;
				expect_every_survivor_ends(
					&job, rd_algorithms[i]->name, &set, &failed);
				runs++;
			}
		}
	}
	/* Most deaths fail a survivor, and some fail many. */
	cr_expect_gt(failed, runs);
}

Test(simulator, no_rank_leaves_a_call_of_all_that_one_never_entered)
{
	static const enum rd_collective meetings[] = { RD_BARRIER, RD_ALL_REDUCE, RD_REDUCE_SCATTER,
		RD_ALL_GATHER, RD_ALL_TO_ALL };

	for (int times = 0; times < 100; times++) {
		int size = 2 + any(6);
		struct rd_simulation set = any_simulation(size);
		struct simulated_job job = any_world(meetings[times % 5], size);
		struct rd_simulated simulated;

		job.count = job.collective == RD_BARRIER ? 0 : 10;
		set.dead_rank = any(size);
		run(job, NULL, &set, &simulated);
		for (int rank = 0; rank < size; rank++)
			cr_expect_neq(simulated.errors[rank], 0, "%s",
				rd_collective_name(job.collective));
		rd_simulated_finish(&simulated);
	}
}

Test(simulator, a_death_fails_an_all_reduce_on_every_rank)
{
	struct rd_simulation set = plain;
	struct simulated_job job = { .collective = RD_ALL_REDUCE, .size = 6, .count = 999 };
	struct rd_simulated simulated;

	job.type = RONDO_F32;
	set.size = 6;
	set.dead_rank = 3;
	set.death_ns = 2500; /* during the call */
	run(job, "ring", &set, &simulated);
	for (int rank = 0; rank < 6; rank++)
		cr_expect_eq(simulated.errors[rank], rank == 3 ? RONDO_DIED : RONDO_BROKEN);
	cr_expect_eq(simulated.culprits[4], 3);
	rd_simulated_finish(&simulated);
}

/* The root reads rank 1's message first, which may come long after that of rank 2, who is dead. */
Test(simulator, what_a_rank_sent_before_it_died_still_arrives)
{
	for (int times = 0; times < 50; times++) {
		struct rd_simulation set = plain;
		struct simulated_job job = { .collective = RD_GATHER, .size = 3, .count = 16 };
		struct rd_simulated simulated;

		job.type = RONDO_F32;
		set.size = 3;
		set.seed = times;
		set.jitter_ns = 1000000;
		set.dead_rank = 2;
		set.death_ns = set.jitter_ns; /* it has sent by then */
		cr_assert(job_create(&job, NULL));
		cr_assert_eq(job_simulate(&job, &set, &simulated), 0, "%s", rondo_last_error());
		cr_expect_eq(simulated.errors[0], 0);
		cr_expect(job_rank_is_right(&job, 0), "%s", job.reason);
		rd_simulated_finish(&simulated);
		job_destroy(&job);
	}
}

/* ---- Errors -------------------------------------------------------------------------------- */

Test(simulator, ranks_in_different_calls_fail)
{
	struct rd_simulation set = plain;
	struct simulated_job job = { .collective = RD_ALL_REDUCE, .size = 4, .count = 100 };
	struct rd_simulated simulated;
	int mismatches = 0;

	job.type = RONDO_F32;
	set.size = 4;
	cr_assert(job_create(&job, NULL));
	job.calls[2].op = RONDO_MAX;
	cr_assert_eq(job_simulate(&job, &set, &simulated), 0, "%s", rondo_last_error());
	for (int rank = 0; rank < 4; rank++) {
		cr_expect_neq(simulated.errors[rank], 0);
		mismatches += simulated.errors[rank] == RONDO_MISMATCH;
	}
	cr_expect_geq(mismatches, 2);
	rd_simulated_finish(&simulated);
	job_destroy(&job);
}

Test(simulator, names_the_ranks_that_wait_when_nothing_can_move)
{
	struct rd_simulation set = plain;
	struct simulated_job job = {
		.collective = RD_TRANSFER, .size = 2, .target = 1, .count = 9
	};
	struct rd_simulated simulated;

	job.type = RONDO_F32;
	set.size = 2;
	cr_assert(job_create(&job, NULL));
	job.plans[0]->step_count = 0;
	cr_expect_eq(job_simulate(&job, &set, &simulated), RONDO_TIMEOUT);
	cr_expect_str_eq(rondo_last_error(), "nothing can move any more: rank 1 (piece 0, step 0: "
					     "recv chunk 0 from 0 into out[0]) "
					     "waits for rank 0");
	rd_simulated_finish(&simulated);
	job_destroy(&job);
}

Test(simulator, a_ring_deadlocks_where_links_hold_one_message)
{
	struct rd_simulation set = plain;
	struct simulated_job job = { .collective = RD_ALL_REDUCE, .size = 3, .count = 9 };
	struct rd_simulated simulated;

	job.type = RONDO_F32;
	set.size = 3;
	set.slots = 1;
	cr_assert(job_create(&job, "ring"));
	cr_expect_eq(job_simulate(&job, &set, &simulated), RONDO_TIMEOUT);
	rd_simulated_finish(&simulated);
	job_destroy(&job);
}

/* Replaces each FLUSH by a step that does nothing. */
static int forget_flushes(struct rd_plan *plan)
{
	int forgotten = 0;

	for (int i = 0; i < plan->step_count; i++) {
		if (plan->steps[i].kind != RD_STEP_FLUSH)
			continue;
		plan->steps[i] = plan->steps[i - 1];
		plan->steps[i].kind = RD_STEP_COPY;
		plan->steps[i].into = plan->steps[i].from;
		forgotten++;
	}
	return forgotten;
}

Test(simulator, memory_that_changes_before_it_has_left_gives_wrong_numbers)
{
	struct rd_simulation set = plain;
	struct simulated_job job = { .collective = RD_ALL_TO_ALL, .size = 2, .count = 40 };
	struct rd_simulated simulated;

	job.type = RONDO_I64;
	job.in_place = true;
	set.size = 2;
	set.zero_copy = true;
	cr_assert(job_create(&job, NULL));
	for (int rank = 0; rank < 2; rank++)
		cr_assert_gt(forget_flushes(job.plans[rank]), 0);
	cr_expect_eq(job_simulate(&job, &set, &simulated), 0);
	cr_expect_not(job_is_right(&job));
	rd_simulated_finish(&simulated);
	job_destroy(&job);
}

static void forget_signals(struct rd_plan *plan)
{
	int kept = 0;

	for (int i = 0; i < plan->step_count; i++)
		if (plan->steps[i].kind != RD_STEP_SIGNAL && plan->steps[i].kind != RD_STEP_AWAIT)
			plan->steps[kept++] = plan->steps[i];
	plan->step_count = kept;
}

Test(simulator, memory_that_is_reached_after_its_rank_is_done_gives_wrong_numbers)
{
	static const enum rd_collective reaching[] = { RD_ALL_REDUCE, RD_BROADCAST, RD_ALL_GATHER,
		RD_REDUCE_SCATTER };

	for (int i = 0; i < 4; i++) {
		struct rd_simulation set = plain;
		struct simulated_job job = { .collective = reaching[i], .size = 3, .count = 100 };
		struct rd_simulated simulated;

		job.type = RONDO_F32;
		set.size = 3;
		cr_assert(job_create(&job, "two_shot"));
		for (int rank = 0; rank < 3; rank++)
			forget_signals(job.plans[rank]);
		cr_expect_eq(job_simulate(&job, &set, &simulated), 0);
		cr_expect_not(job_is_right(&job), "%s", rd_collective_name(reaching[i]));
		rd_simulated_finish(&simulated);
		job_destroy(&job);
	}
}

Test(simulator, a_plan_with_a_wrong_index_fails_or_gives_wrong_numbers)
{
	struct rd_simulation set = plain;

	set.size = 4;
	for (int what = 0; what < 3; what++) {
		struct simulated_job job = { .collective = RD_ALL_REDUCE, .size = 4, .count = 100 };
		struct rd_simulated simulated;
		struct rd_step *step;
		bool failed;

		job.type = RONDO_F32;
		cr_assert(job_create(&job, "ring"));
		step = &job.plans[1]->steps[1];
		if (what == 0)
			step->peer = 2;
		else if (what == 1)
			step->chunk = (step->chunk + 1) % 4;
		else
			step->from.chunk = (step->from.chunk + 1) % 4;
		failed = job_simulate(&job, &set, &simulated) != 0;
		for (int rank = 0; rank < 4; rank++)
			failed |= simulated.errors[rank] != 0;
		cr_expect(failed || !job_is_right(&job), "change %d", what);
		rd_simulated_finish(&simulated);
		job_destroy(&job);
	}
}

Test(simulator, refuses_what_cannot_be_simulated)
{
	struct rd_simulation set = plain;
	struct simulated_job job = {
		.collective = RD_TRANSFER, .size = 2, .target = 1, .count = 9
	};
	struct rd_simulated simulated;

	job.type = RONDO_F32;
	set.size = 2;
	cr_assert(job_create(&job, NULL));
	set.slots = 0;
	cr_expect_eq(job_simulate(&job, &set, &simulated), RONDO_INVALID);
	set.slots = 2;
	set.piece_size = 63;
	cr_expect_eq(job_simulate(&job, &set, &simulated), RONDO_INVALID);
	set.piece_size = 64;
	job.plans[0]->steps[0].to = 2;
	cr_expect_eq(job_simulate(&job, &set, &simulated), RONDO_INVALID);
	job.plans[0]->steps[0].to = 0;
	cr_expect_eq(job_simulate(&job, &set, &simulated), RONDO_INVALID);
	job_destroy(&job);

	job = (struct simulated_job){ .collective = RD_BROADCAST, .size = 2, .count = 9 };
	job.type = RONDO_F32;
	cr_assert(job_create(&job, "two_shot"));
	job.plans[1]->steps[0].peer = 2;
	cr_expect_eq(job_simulate(&job, &set, &simulated), RONDO_INVALID);
	cr_expect_str_eq(rondo_last_error(),
		"rank 1, step 0 (fetch chunk 0, in[0] of 2, to out[0]): no link leads to rank 2");
	job_destroy(&job);
}

/* The MERGE would read a message that no HOLD has kept. */
Test(simulator, refuses_a_merge_without_its_holds)
{
	struct simulated_job job = {
		.collective = RD_REDUCE, .size = 3, .type = RONDO_I32, .op = RONDO_SUM, .count = 4
	};
	struct rd_simulation set = plain;
	struct rd_simulated simulated;

	set.size = 3;
	cr_assert(job_create(&job, "one_round"), "%s", rondo_last_error());
	job.plans[0]->steps[1].peer = 1;
	cr_expect_eq(job_simulate(&job, &set, &simulated), RONDO_INVALID);
	cr_expect_str_eq(rondo_last_error(),
		"rank 0, step 1 (hold chunk 0 from 1): step 0 already holds rank 1's message");
	job_destroy(&job);
}
