/* Every kind of model trains on GPUs as on the CPU. */
#include <criterion/criterion.h>

#include "train/base/fail.h"
#include "train/device/gpus.h"
#include "train/job.h"
#include "train/scratch.h"
#include "train/steps.h"

TestSuite(cuda_models, .init = scratch_make, .fini = scratch_remove, .timeout = 240);

#define SAMPLES 21 /* two global batches of 8, and one of 5 */
#define MODEL_STEPS 6 /* of two epochs */
#define TOKENS 12

/* Training on a drawn set; the optimizer and rate are the model's own. */
static struct job make_model_job(const char *name, const char *set, enum device_kind device)
{
	struct job job = make_job();
	job.options.network = network_named(name);
	job.options.set = set_named(set);
	job.options.device = device;
	job.options.global_batch = 8;
	job.options.tokens = TOKENS;
	job.options.optimizer = -1;
	job.options.learning_rate = job.options.momentum = job.options.weight_decay = -1;
	job.options.beta1 = 0.9;
	job.options.beta2 = 0.999;
	return job;
}

/* `samples` and `tests` are counts of the set: see set_draw(). */
static void expect_like_the_cpu(const char *name, const char *set, size_t samples, size_t tests)
{
	need_gpus(scratch_remove);
	cr_assert_eq(
		set_draw(set_named(set), scratch_path(""), samples, tests), 0, "%s", failure());
	struct job cpu = make_model_job(name, set, DEVICE_CPU);
	struct job gpu = make_model_job(name, set, DEVICE_CUDA);
	struct step_errors errors = compare_steps(&cpu, 2, &gpu, 2, MODEL_STEPS);
	cr_expect_lt(errors.loss, STEP_LOSS_BOUND, "a loss is off by %g", errors.loss);
	/* Infinite where a step moves nothing. */
	cr_expect_lt(errors.update, STEP_UPDATE_BOUND, "an update is off by %g", errors.update);
	/* With running statistics, of batch norm. */
	cr_expect_float_eq(cpu.outcome->test.loss / cpu.outcome->test.count,
		gpu.outcome->test.loss / gpu.outcome->test.count, STEP_LOSS_BOUND,
		"%.9g and %.9g, of %g", cpu.outcome->test.loss, gpu.outcome->test.loss,
		cpu.outcome->test.count);
	finish_job(&cpu);
	finish_job(&gpu);
}

Test(cuda_models, convnet_trains_as_on_the_cpu)
{
	expect_like_the_cpu("convnet", "drawn", SAMPLES, 9);
}

Test(cuda_models, lenet_trains_as_on_the_cpu)
{
	expect_like_the_cpu("lenet", "drawn-cifar", SAMPLES, 9);
}

Test(cuda_models, gpt_trains_as_on_the_cpu)
{
	expect_like_the_cpu("gpt-nano", "drawn-text", SAMPLES * TOKENS + 1, 9 * TOKENS + 1);
}
