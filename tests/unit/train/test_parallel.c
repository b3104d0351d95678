/* Whole runs with tensor and pipeline parallelism: the losses of one rank, for one global batch. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "train/job.h"
#include "train/scratch.h"

TestSuite(parallel, .init = make_data, .fini = scratch_remove, .timeout = 600);

static struct job divided(int tensor, int pipeline, int micro_batches)
{
	struct job job = make_job();
	job.options.tensor = tensor;
	job.options.pipeline = pipeline;
	job.options.accumulate = micro_batches;
	return job;
}

static void expect_losses(const struct job_outcome *plain, struct job job, int size)
{
	run_ranks(&job, size);
	expect_near_losses(job.outcome, plain, size);
}

Test(parallel, losses_are_those_of_one_rank)
{
	struct job plain = make_job();
	run_plain(&plain);
	expect_losses(plain.outcome, divided(2, 1, 1), 2);
	expect_losses(plain.outcome, divided(1, 2, 4), 2);
	expect_losses(plain.outcome, divided(1, 2, 3), 4);
	expect_losses(plain.outcome, divided(2, 2, 2), 8);
	struct job gpipe = divided(1, 4, 4);
	gpipe.options.pipeline_schedule = PIPELINE_GPIPE;
	expect_losses(plain.outcome, gpipe, 4);
}

static void exit_if_stepped(struct train *train, int step)
{
	(void)step;
	if (train->model->parameters.list[0].stepped)
		_exit(9);
}

/* Stages may share a parameter, and then sum its gradients after backward. */
Test(parallel, backward_takes_no_step_in_a_pipeline)
{
	struct job job = divided(1, 2, 1);
	job.change = exit_if_stepped;
	run_ranks(&job, 2);
}

Test(parallel, clipping_sees_the_gradients_of_all_parts)
{
	struct job alone = make_job(), parts = divided(2, 2, 2);
	alone.options.clip = parts.options.clip = 0.5;
	/* The norm scales all of a gradient by its own error; a lower rate makes less of both. */
	alone.options.learning_rate = parts.options.learning_rate = 0.1;
	run_ranks(&alone, 1);
	run_ranks(&parts, 4);
	expect_near_losses(parts.outcome, alone.outcome, 4);
}

static int failed_step;

/* A rank in the middle of a replica fails on its own. */
static void exit_in_step(int rank, int step)
{
	if (rank == 2 && step == failed_step)
		_exit(7);
}

Test(parallel, a_rank_that_dies_ends_all_of_them)
{
	struct job job = divided(2, 2, 2);
	failed_step = 3;
	job.before_step = exit_in_step;
	int status = rondo_spawn(8, run_rank, &job);
	cr_assert_gt(status, 0);
}

Test(parallel, what_cannot_be_divided_is_one_line)
{
	struct job job = divided(3, 1, 1);
	expect_failure(&job, 3, "--tensor 3: does not divide the 512 outputs of a linear layer");
	job = divided(1, 6, 1);
	expect_failure(&job, 6, "--pipeline 6: the model has 5 layers to divide");
	job = divided(2, 2, 1);
	expect_failure(&job, 2, "--tensor 2 --pipeline 2: needs a multiple of 4 ranks, not 2");
	job = divided(2, 1, 1);
	job.options.checkpoint = scratch_path("file");
	expect_failure(&job, 2, "--checkpoint: not with --tensor or --pipeline");
}
