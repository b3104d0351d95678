/* Whole runs with the options of data parallelism. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/job.h"
#include "train/scratch.h"

TestSuite(replica, .init = make_data, .fini = scratch_remove, .timeout = 600);

Test(replica, micro_batches_train_as_whole_batches_do)
{
	struct job one = make_job();
	run_plain(&one);
	/* The last batch has 2 images: most micro-batches have none then. */
	for (int size = 1; size <= 4; size++) {
		struct job many = make_job();
		many.options.accumulate = 4 - size / 2;
		run_ranks(&many, size);
		expect_near(many.outcome, one.outcome, size);
	}
}

/* An element of a gradient is rounded on each of two ranks and once more in their sum, each time by
   2^-12 or 2^-9 of it at most. A step moves a parameter by less than 1. */
#define MOST_ROUNDED(unit) (STEPS * 3 * (unit))

Test(replica, compressed_gradients_train_alike_but_for_rounding)
{
	struct job whole = make_job(), half = make_job(), brain = make_job(), again = make_job();
	run_ranks(&whole, 2);
	half.options.compress = COMPRESS_F16;
	run_ranks(&half, 2);
	brain.options.compress = COMPRESS_BF16;
	run_ranks(&brain, 2);
	double from_half = furthest_parameter(whole.outcome, half.outcome);
	double from_brain = furthest_parameter(whole.outcome, brain.outcome);
	cr_assert(from_half > 0x1p-24 && from_half < MOST_ROUNDED(0x1p-12), "%g", from_half);
	cr_assert(
		from_brain > 2 * from_half && from_brain < MOST_ROUNDED(0x1p-9), "%g", from_brain);
	cr_assert_float_eq(half.outcome->losses[STEPS - 1], whole.outcome->losses[STEPS - 1],
		MOST_ROUNDED(0x1p-12));
	again.options.compress = COMPRESS_F16;
	again.options.bucket_mb = 0.1;
	run_ranks(&again, 2);
	cr_assert_eq(again.outcome->hashes[0], half.outcome->hashes[0]);
}

static void change_parameter(struct train *train)
{
	if (train->world->rank == 1)
		train->model->parameters.list[2].value[5] += 1;
}

Test(replica, parameters_that_differ_are_found_within_the_steps_asked_for)
{
	struct job job = make_job();
	job.reports = true;
	job.options.check_every = 2;
	job.options.steps = 4;
	job.created = change_parameter;
	expect_failure(&job, 3,
		"parameters after step 2 differ: rank 1 from rank 0, first in "
		"linear_relu_stack.2.weight");
}

/* ---- Sharded optimizer ---- */

#define ADAM_RATE 1e-3

/*
 * Adam divides a gradient by the root of its squares. Rounding changes a gradient by the part `off`
 * of the usual one, and a step by this part of the rate. Where a gradient is smaller, it changes
 * the step by more, and where a gradient is no greater than its error, the step has either sign.
 * The mean over gradients that are evenly spread about zero is off * (1 + log(1 / off)).
 */
static double adam_bound(void)
{
	double off = RUN_LOSS_BOUND(STEPS, MLP_TERMS);
	return STEPS * ADAM_RATE * off * (1 + log(1 / off)) + 2 * LIKELY_ROUNDING(STEPS, 1);
}

static struct job make_adam(void)
{
	struct job job = make_job();
	job.options.optimizer = OPTIMIZER_ADAMW;
	job.options.beta1 = 0.9;
	job.options.beta2 = 0.999;
	job.options.learning_rate = ADAM_RATE;
	job.options.clip = 0.5;
	job.options.bucket_mb = 0.3;
	return job;
}

Test(replica, a_sharded_optimizer_steps_as_a_whole_one_does)
{
	for (int size = 1; size <= 4; size++) {
		struct job whole = make_adam(), zero = make_adam();
		run_ranks(&whole, size);
		zero.options.zero = true;
		run_ranks(&zero, size);
		/* The norm is added up in another order. */
		double distance = mean_distance(whole.outcome, zero.outcome);
		cr_assert_lt(distance, adam_bound(), "%d ranks: %g", size, distance);
	}
}

Test(replica, a_sharded_optimizer_without_a_norm_gives_the_same_bits_on_two_ranks)
{
	struct job whole = make_job(), zero = make_job();
	whole.options.momentum = zero.options.momentum = 0.9;
	whole.options.learning_rate = zero.options.learning_rate = 0.1;
	zero.options.zero = true;
	/* A sum of two has one result. */
	expect_same_hash(whole, zero, 2);
}

static size_t state_elements;

static void note_state(struct train *train)
{
	state_elements = train->optimizer->elements;
	/* Ranks are processes: a wrong size is a failure of the rank. */
	size_t even = train->model->parameters.elements / train->world->size;
	size_t slack = 16 * train->ddp->bucket_count;
	if (state_elements + slack < even || state_elements > even + slack)
		_exit(1);
}

Test(replica, a_rank_holds_its_part_of_the_state)
{
	struct job job = make_adam();
	job.options.zero = true;
	job.created = note_state;
	run_ranks(&job, 3);
}

Test(replica, a_sharded_state_is_saved_whole_and_resumed_on_other_numbers_of_ranks)
{
	struct job whole = make_adam(), half = make_adam();
	whole.options.zero = half.options.zero = true;
	whole.options.checkpoint = scratch_path("whole");
	run_ranks(&whole, 2);
	half.options.epochs = 1;
	half.options.checkpoint = scratch_path("half");
	run_ranks(&half, 2);
	for (int size = 1; size <= 4; size++) {
		struct job rest = make_adam();
		rest.options.zero = size > 1;
		rest.options.resume = scratch_path("half");
		run_ranks(&rest, size);
		if (size == 2)
			cr_assert_eq(rest.outcome->hashes[0], whole.outcome->hashes[0]);
		double distance = mean_distance(whole.outcome, rest.outcome);
		cr_assert_lt(distance, adam_bound(), "%d ranks: %g", size, distance);
	}
}

Test(replica, gradients_are_compressed_on_their_way_to_shards)
{
	struct job half = make_job(), zero = make_job();
	half.options.compress = zero.options.compress = COMPRESS_BF16;
	zero.options.zero = true;
	expect_same_hash(half, zero, 2);
}

/* ---- The same bits ---- */

struct variant {
	int size, hosts;
	double bucket_mb;
	const char *transport; /* NULL: any */
	bool zero, no_overlap;
	int accumulate;
};

static const struct variant variants[] = {
	{ 1, 1, 2, NULL, false, false, 1 },
	{ 2, 1, 2, NULL, false, false, 1 },
	{ 4, 1, 2, "tcp", false, false, 1 },
	{ 8, 1, 2, "shm", false, false, 1 },
	{ 2, 2, 0.01, NULL, false, false, 1 },
	{ 4, 2, 0.3, NULL, false, true, 2 },
	{ 8, 2, 1, NULL, true, false, 1 },
	{ 1, 1, 0.1, NULL, true, false, 8 },
	{ 2, 1, 0.05, "tcp", true, false, 4 },
	{ 4, 2, 100, NULL, true, false, 1 },
};
#define VARIANTS (sizeof(variants) / sizeof(*variants))

typedef double distance_function(const struct job_outcome *a, const struct job_outcome *b);

/* All variants of a deterministic run end with the same bits. A run of as many ranks as there are
   shards adds up the same sums in another order: `bound` bounds how far it ends from them. */
static void expect_same_bits(struct job (*make)(void), distance_function *distance_of, double bound)
{
	struct job plain = make(), first = make();
	run_ranks(&plain, plain.options.shards);
	for (size_t i = 0; i < VARIANTS; i++) {
		const struct variant *variant = &variants[i];
		struct job job = i ? make() : first;
		job.options.deterministic = true;
		job.options.bucket_mb = variant->bucket_mb;
		job.options.zero = variant->zero;
		job.options.no_overlap = variant->no_overlap;
		job.options.accumulate = variant->accumulate;
		job.hosts = variant->hosts;
		if (variant->transport)
			setenv("RONDO_TRANSPORT", variant->transport, 1);
		run_ranks(&job, variant->size);
		unsetenv("RONDO_TRANSPORT");
		if (i == 0)
			continue;
		cr_assert_eq(job.outcome->hashes[0], first.outcome->hashes[0], "variant %zu", i);
		cr_assert_arr_eq(job.outcome->losses, first.outcome->losses,
			sizeof(job.outcome->losses), "variant %zu", i);
		cr_assert_eq(job.outcome->test.loss, first.outcome->test.loss);
	}
	double distance = distance_of(plain.outcome, first.outcome);
	cr_assert(distance > 0 && distance < bound, "%g", distance);
}

Test(replica, a_deterministic_run_has_the_same_bits_everywhere)
{
	expect_same_bits(make_job, furthest_parameter, MLP_PARAMETER_BOUND);
}

Test(replica, a_deterministic_run_with_clipping_has_the_same_bits_everywhere)
{
	expect_same_bits(make_adam, mean_distance, adam_bound());
}

#define CONVNET_RATE 0.05
#define CONVNET_TERMS (25 + 16 * 25 + 1568)

static struct job make_convnet(void)
{
	struct job job = make_job();
	job.options.network = network_named("convnet");
	job.options.learning_rate = CONVNET_RATE;
	return job;
}

Test(replica, a_deterministic_batch_norm_has_the_same_bits_everywhere)
{
	/* Ranks as many as shards have the same statistics. Where rounding sends a gradient another
	   way through a pooling, few parameters are further off: the mean counts. */
	expect_same_bits(make_convnet, mean_distance,
		RUN_PARAMETER_BOUND(STEPS, CONVNET_TERMS, CONVNET_RATE));
}

#define TOKENS 16
#define GPT_RATE 1e-3
/* Each layer has products of width 48, of four times that, and of a head's attention. */
#define GPT_TERMS (3 * (48 + 16 + TOKENS + 48 + 48 + 4 * 48) + 48)

static struct job make_gpt(void)
{
	struct job job = make_job();
	job.options.data = scratch_path("text");
	job.options.network = network_named("gpt-nano");
	job.options.tokens = TOKENS;
	job.options.learning_rate = GPT_RATE;
	return job;
}

Test(replica, a_deterministic_gpt_has_the_same_bits_everywhere)
{
	cr_assert_eq(set_draw(set_named("drawn-text"), scratch_path("text"), IMAGES * TOKENS + 1,
			     TESTS * TOKENS + 1),
		0, "%s", failure());
	expect_same_bits(
		make_gpt, furthest_parameter, RUN_PARAMETER_BOUND(STEPS, GPT_TERMS, GPT_RATE));
}

/* ---- Reports and failures ---- */

Test(replica, buckets_and_stragglers_are_reported)
{
	struct job job = make_job();
	const char *at;
	int buckets = 0, number;
	double size, ready, launched, done, exposed, all = 0;
	job.reports = job.options.bucket_report = true;
	job.options.bucket_mb = 0.5;
	job.options.stragglers = 5;
	job.options.epochs = 1;
	run_ranks(&job, 3);
	at = strstr(job.outcome->report, "Step 5: rank ");
	cr_assert(at && strstr(at, " launches its buckets last, "), "%s", job.outcome->report);
	cr_assert_null(strstr(at + 1, "Step 1"));
	at = strstr(job.outcome->report, "exposed  ms after backward began\n");
	cr_assert(at, "%s", job.outcome->report);
	at = strchr(at, '\n') + 1;
	while (sscanf(at, "%d %lf %lf %lf %lf %lf", &number, &size, &ready, &launched, &done,
		       &exposed) == 6) {
		cr_assert_eq(number, buckets++);
		cr_assert(ready >= 0 && launched >= ready && done >= launched, "%s", at);
		cr_assert(exposed >= 0 && exposed <= done - launched + 0.002, "%s", at);
		all += size;
		at = strchr(at, '\n') + 1;
	}
	cr_assert_gt(buckets, 2);
	/* The 669,706 parameters, each tensor up to 64 bytes. */
	cr_assert(all > 669706 * 4 / 1024.0 - 1 && all < 669706 * 4 / 1024.0 + 1, "%g", all);
}

static void fail_rank_1(struct train *train)
{
	if (train->world->rank != 1)
		return;
	train->device->error = 1;
	snprintf(train->device->reason, sizeof(train->device->reason), "it fell off the bus");
}

static void kill_rank_2(int rank, int step)
{
	if (rank == 2 && step == 2)
		raise(SIGKILL);
}

Test(replica, a_rank_that_fails_or_dies_ends_all_comms_of_a_deterministic_run, .timeout = 30)
{
	struct job failing = make_job(), dying = make_job();
	failing.options.deterministic = dying.options.deterministic = true;
	failing.created = fail_rank_1;
	expect_failure(&failing, 4, "it fell off the bus");
	dying.before_step = kill_rank_2;
	expect_failure(&dying, 8, "");
}

Test(replica, a_deterministic_run_that_cannot_be_is_refused_once)
{
	struct job three = make_job(), sixteen = make_job(), half = make_job(), many = make_job();
	three.options.deterministic = sixteen.options.deterministic = true;
	half.options.deterministic = many.options.deterministic = true;
	expect_failure(&three, 3, "runs on 1, 2, 4, ... --shards ranks, not on 3 with 8 shards");
	sixteen.options.shards = 2;
	expect_failure(&sixteen, 4, "not on 4 with 2 shards");
	half.options.compress = COMPRESS_F16;
	expect_failure(&half, 2, "would depend on the ranks with --compress");
	many.options.accumulate = 3;
	expect_failure(&many, 4, "--accumulate 3: each of 4 ranks has 2 of the --shards already");
}
