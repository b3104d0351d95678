/* Batch norm over ranks: the same as on one rank with --sync-bn, and rank 0's for evaluation. */
#include <criterion/criterion.h>

#include "train/base/fail.h"
#include "train/job.h"
#include "train/model/networks.h"
#include "train/parallel/statistics.h"
#include "train/scratch.h"
#include "train/steps.h"

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
