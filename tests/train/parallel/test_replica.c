/* Whole runs with the options of data parallelism. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/job.h"
#include "train/scratch.h"

TestSuite(replica, .init = make_data, .fini = scratch_remove, .timeout = 240);

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
		finish_job(&many);
	}
	finish_job(&one);
}

static double furthest(const struct job_outcome *a, const struct job_outcome *b)
{
	double most = 0;
	for (int i = 0; i < PARAMETERS; i++)
		most = fmax(most, fabs(a->parameters[i] - b->parameters[i]));
	return most;
}

/* An element of a gradient is rounded on each of two ranks and once more in their sum, each time by
   2^-12 or 2^-9 of it at most. Parameters move by 1 at most, and ReLU magnifies differences. */
Test(replica, compressed_gradients_train_alike_but_for_rounding)
{
	struct job whole = make_job(), half = make_job(), brain = make_job(), again = make_job();
	run_ranks(&whole, 2);
	half.options.compress = COMPRESS_F16;
	run_ranks(&half, 2);
	brain.options.compress = COMPRESS_BF16;
	run_ranks(&brain, 2);
	double from_half = furthest(whole.outcome, half.outcome);
	double from_brain = furthest(whole.outcome, brain.outcome);
	cr_assert(from_half > 1e-5 && from_half < 1e-2, "%g", from_half);
	cr_assert(from_brain > 2 * from_half && from_brain < 5e-2, "%g", from_brain);
	cr_assert_float_eq(half.outcome->losses[STEPS - 1], whole.outcome->losses[STEPS - 1], 1e-3);
	again.options.compress = COMPRESS_F16;
	again.options.bucket_mb = 0.1;
	run_ranks(&again, 2);
	cr_assert_eq(again.outcome->hashes[0], half.outcome->hashes[0]);
	finish_job(&whole);
	finish_job(&half);
	finish_job(&brain);
	finish_job(&again);
}

static void change_parameter(struct train *train)
{
	if (train->world->rank == 1)
		train->model->parameters.values[5] += 1;
}

Test(replica, parameters_that_differ_are_found_within_the_steps_asked_for)
{
	struct job job = make_job();
	job.reports = true;
	job.options.check_every = 2;
	job.options.steps = 4;
	job.created = change_parameter;
	expect_failure(&job, 2, "parameters after step 2 differ: rank 0 has ");
}
