/* Whole runs with tensor and pipeline parallelism: the losses of one rank, for one global batch. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/job.h"
#include "train/model/networks.h"
#include "train/parallel/statistics.h"
#include "train/scratch.h"
#include "train/steps.h"

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
	expect_losses(plain.outcome, divided(1, 4, 4), 4);
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

/* Batch norm over ranks: the same as on one rank with --sync-bn, and rank 0's for evaluation. */

TestSuite(statistics, .init = make_data, .fini = scratch_remove, .timeout = 600);

static struct job make_norm_job(bool sync)
{
	struct job job = make_job();
	job.options.network = network_named("convnet");
	job.options.learning_rate = 0.02;
	job.options.sync_norm = sync;
	return job;
}

/* The last step has 2 samples: some ranks have none. */
Test(statistics, ranks_that_share_them_train_as_one_rank)
{
	for (int size = 2; size <= 4; size++) {
		struct job one = make_norm_job(false), many = make_norm_job(true);
		struct step_errors errors = compare_steps(&one, 1, &many, size, STEPS);
		cr_expect_lt(errors.loss, STEP_LOSS_BOUND, "%d ranks: %g", size, errors.loss);
		cr_expect_lt(errors.update, STEP_UPDATE_BOUND, "%d ranks: %g", size, errors.update);
		cr_expect_float_eq(many.outcome->test.loss, one.outcome->test.loss,
			TESTS * STEP_LOSS_BOUND, "%d ranks", size);
	}
}

/* The bounds above would show them. */
Test(statistics, ranks_with_their_own_train_otherwise)
{
	struct job one = make_norm_job(false), apart = make_norm_job(false);
	struct step_errors errors = compare_steps(&one, 1, &apart, 2, STEPS);
	cr_expect_gt(errors.loss, 10 * STEP_LOSS_BOUND, "%g", errors.loss);
	cr_expect_gt(errors.update, 2 * STEP_UPDATE_BOUND, "%g", errors.update);
}

Test(statistics, a_run_with_shared_ones_is_the_same_every_time)
{
	expect_same_hash(make_norm_job(true), make_norm_job(true), 3);
}

Test(statistics, a_model_without_batch_norm_refuses_to_share)
{
	struct job job = make_job();
	job.options.sync_norm = true;
	expect_failure(&job, 2, "--sync-bn: model mlp has no batch norm");
}

static int take_those_of_rank_0(void *argument)
{
	static const struct samples samples = { 1, 8, 8, 10, 0 };
	const struct model_config config = { .batch_max = 1 };
	struct train_world world;
	struct device *cpu;
	struct model *model;
	int wrong = 0;
	(void)argument;
	if (device_create(&cpu, DEVICE_CPU, 0) || world_open(&world, -1) ||
		network_create(&model, network_named("convnet"), cpu, &samples, &config, 1))
		return 1;
	for (size_t i = 0; i < model->buffers.elements; i++)
		model->buffers.values[i] = world.rank * 1000 + i;
	int err = statistics_broadcast(&world, model);
	for (size_t i = 0; i < model->buffers.elements; i++)
		wrong += model->buffers.values[i] != i;
	model_destroy(model);
	err = world_close(&world, err);
	device_destroy(cpu);
	return err || wrong;
}

Test(statistics, a_broadcast_gives_all_ranks_those_of_rank_0)
{
	cr_assert_eq(rondo_spawn(3, take_those_of_rank_0, NULL), 0, "%s", failure());
}
