/* Training on GPUs gives the CPU's losses and parameters. Without a GPU (gpus.h) it is skipped.
   Ranks share the GPUs. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/stream.h"
#include "device/device_stream.h"
#include "train/base/fail.h"
#include "train/device/gpus.h"
#include "train/job.h"
#include "train/scratch.h"
#include "train/steps.h"

TestSuite(cuda, .init = make_data, .fini = scratch_remove, .timeout = 240);

static struct job make_cuda_job(void)
{
	struct job job = make_job();
	job.options.device = DEVICE_CUDA;
	return job;
}

/* Two puts from the same memory follow each other faster than the GPU copies. */
static int put_many(void)
{
	enum { COUNT = 1 << 16, PUTS = 50 };
	static float numbers[COUNT], sums[PUTS];
	struct device *device;
	float *ones, *at, *sum;
	int err = device_create(&device, DEVICE_CUDA, 0);
	if (err)
		return err;
	const struct device_ops *ops = device->ops;
	err = ops->alloc(device, (void **)&ones, sizeof(numbers)) ||
	      ops->alloc(device, (void **)&at, sizeof(numbers)) ||
	      ops->alloc(device, (void **)&sum, sizeof(sums));
	for (int put = 0; !err && put <= PUTS; put++) {
		for (int i = 0; i < COUNT; i++)
			numbers[i] = put ? (float)put : 1;
		ops->put(device, put ? at : ones, numbers, sizeof(numbers));
		if (put)
			device_multiply(
				device, 1, 1, COUNT, ones, AS_IS, at, AS_IS, 0, &sum[put - 1]);
	}
	if (!err)
		err = ops->get(device, sums, sum, sizeof(sums));
	for (int put = 1; !err && put <= PUTS; put++)
		if (sums[put - 1] != (float)put * COUNT)
			err = fail("put %d came as %g", put, sums[put - 1] / COUNT);
	ops->free(device, ones);
	ops->free(device, at);
	ops->free(device, sum);
	device_destroy(device);
	return err;
}

Test(cuda, what_is_put_may_be_changed_at_once)
{
	need_gpus(scratch_remove);
	expect_success(put_many);
}

/* The kernels of a bucket start before those of the computation that wait for room. */
static int compare_priorities(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
	int (*get_range)(int *, int *), (*get)(void *, int *), least, greatest, priority = 1;
	struct device *device;
	rondo_stream *stream;
	int err = device_create(&device, DEVICE_CUDA, 0);
	if (err)
		return err;
	*(void **)&get_range = dlsym(driver, "cuCtxGetStreamPriorityRange");
	*(void **)&get = dlsym(driver, "cuStreamGetPriority");
	err = device->ops->stream(device, &stream);
	if (!err && (get_range(&least, &greatest) ||
			    get(rd_stream_device_stream(stream)->stream, &priority)))
		err = fail("the driver returns no priority");
	if (!err && (greatest >= least || priority != greatest))
		err = fail("priority %d of %d to %d", priority, least, greatest);
	rondo_stream_destroy(stream);
	device_destroy(device);
	return err;
}

Test(cuda, communication_has_the_greatest_priority)
{
	need_gpus(scratch_remove);
	expect_success(compare_priorities);
}

/* ---- The same as on the CPU ---- */

static void expect_ranks_like_the_cpu(const char *kernel, double bucket_mb, int size)
{
	struct job one = make_job(), many = make_cuda_job();
	need_gpus(scratch_remove);
	setenv("RONDO_KERNEL", kernel, 1);
	run_plain(&one);
	many.options.bucket_mb = bucket_mb;
	run_ranks(&many, size);
	expect_near(many.outcome, one.outcome, size);
}

Test(cuda, ranks_train_as_one_does_on_the_cpu)
{
	expect_ranks_like_the_cpu("auto", -1, 1);
	expect_ranks_like_the_cpu("auto", -1, 2);
	expect_ranks_like_the_cpu("auto", -1, 4);
}

Test(cuda, ranks_train_as_one_does_through_host_memory)
{
	expect_ranks_like_the_cpu("staged", -1, 3);
}

Test(cuda, tensor_parallel_stages_train_as_one_does_on_the_cpu)
{
	struct job one = make_job(), many = make_cuda_job();
	need_gpus(scratch_remove);
	run_plain(&one);
	many.options.tensor = many.options.pipeline = many.options.accumulate = 2;
	run_ranks(&many, 4);
	expect_near_losses(many.outcome, one.outcome, 4);
}

Test(cuda, many_small_buckets_change_nothing_but_rounding)
{
	expect_ranks_like_the_cpu("auto", 0.001, 2);
}

Test(cuda, a_rank_without_a_launcher_trains_as_one)
{
	struct job one = make_job(), alone = make_cuda_job();
	need_gpus(scratch_remove);
	run_plain(&one);
	pid_t pid = fork();
	if (pid == 0)
		_exit(run_rank(&alone));
	int status;
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0, "%s", alone.outcome->reason);
	expect_near(alone.outcome, one.outcome, 1);
}

Test(cuda, a_run_is_the_same_every_time)
{
	need_gpus(scratch_remove);
	expect_same_hash(make_cuda_job(), make_cuda_job(), 2);
}

static void change_parameter(struct train *train)
{
	const struct tensors *tensors = &train->model->parameters;
	float *values = malloc(tensors->elements * sizeof(float));
	if (train->world->rank == 1 && !model_read(train->model, tensors, values)) {
		values[tensors->list[2].value - tensors->values] += 1;
		model_write(train->model, tensors, values);
	}
	free(values);
}

Test(cuda, parameters_that_differ_are_found_on_the_device)
{
	struct job job = make_cuda_job();
	need_gpus(scratch_remove);
	job.reports = true;
	job.options.check_every = 2;
	job.created = change_parameter;
	expect_failure(&job, 3,
		"parameters after step 2 differ: rank 1 from rank 0, first in "
		"linear_relu_stack.2.weight");
}

/* ---- Checkpoints ---- */

Test(cuda, a_resumed_run_continues_to_the_bit)
{
	struct job whole = make_cuda_job(), half = make_cuda_job(), rest = make_cuda_job();
	need_gpus(scratch_remove);
	whole.options.checkpoint = scratch_path("whole");
	run_ranks(&whole, 2);
	half.options.epochs = 1;
	half.options.checkpoint = rest.options.checkpoint = scratch_path("half");
	run_ranks(&half, 2);
	rest.options.resume = scratch_path("half");
	rest.options.global_batch = -1;
	run_ranks(&rest, 2);
	cr_assert_eq(rest.outcome->hashes[0], whole.outcome->hashes[0]);
	cr_assert_neq(half.outcome->hashes[0], whole.outcome->hashes[0]);
}

static void expect_moving(enum device_kind from, enum device_kind to)
{
	struct job one = make_job(), first = make_job(), second = make_job();
	run_plain(&one);
	first.options.device = from;
	first.options.epochs = 1;
	first.options.checkpoint = scratch_path("it");
	run_ranks(&first, 2);
	second.options.device = to;
	second.options.resume = scratch_path("it");
	memcpy(second.outcome->losses, one.outcome->losses, sizeof(one.outcome->losses) / 2);
	run_ranks(&second, 2);
	expect_near(second.outcome, one.outcome, 2);
}

Test(cuda, a_checkpoint_moves_between_the_cpu_and_gpus)
{
	need_gpus(scratch_remove);
	expect_moving(DEVICE_CPU, DEVICE_CUDA);
	expect_moving(DEVICE_CUDA, DEVICE_CPU);
}

/* ---- The report ---- */

/* The number before these words, in rank 0's output. */
static double number_before(const char *report, const char *words)
{
	const char *at = strstr(report, words);
	cr_assert(at, "'%s' is not in: %s", words, report);
	while (at > report && strchr("0123456789. ", at[-1]))
		at--;
	return atof(at);
}

Test(cuda, the_report_says_how_much_communication_was_hidden)
{
	struct job job = make_cuda_job();
	need_gpus(scratch_remove);
	job.reports = true;
	run_ranks(&job, 2);
	const char *report = job.outcome->report;
	double hidden = number_before(report, " % hidden behind backward");
	cr_assert(hidden >= 0 && hidden <= 100, "%s", report);
	cr_assert_gt(number_before(report, " images/s; communication"), 0);
}

/* ---- Failures ---- */

static void hide_devices(int rank)
{
	(void)rank;
	setenv("RONDO_DEVICE", "none", 1);
}

static void hide_gpus(int rank)
{
	(void)rank;
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
}

/* The line names the missing part, and the way without it. */
Test(cuda, without_a_gpu_one_line_says_what_to_do)
{
	struct job hidden = make_cuda_job(), missing = make_cuda_job();
	hidden.prepare = hide_devices;
	expect_failure(&hidden, 1, "--device cpu");
	missing.prepare = hide_gpus;
	/* there is no, the CUDA driver sees no, this build has no */
	expect_failure(&missing, 1, "--device cuda: th");
}

/* In the middle of the fourth step or so, in a kernel of the trainer's or of a call. */
static void lose_device_of_rank_1(int rank)
{
	if (rank == 1)
		setenv("EMULATED_LAUNCHES", "60", 1);
}

Test(cuda, a_lost_device_ends_all_ranks_and_is_named)
{
	struct job job = make_cuda_job();
	if (find_gpus() != EMULATED_GPUS) {
		scratch_remove();
		cr_skip_test("only emulated devices get lost on demand");
	}
	job.prepare = lose_device_of_rank_1;
	expect_failure(&job, 3, "the emulated device is lost");
}

static void kill_rank_1(int rank, int step)
{
	if (rank == 1 && step == 3)
		raise(SIGKILL);
}

Test(cuda, a_killed_rank_ends_the_others_with_its_name)
{
	struct job job = make_cuda_job();
	need_gpus(scratch_remove);
	job.before_step = kill_rank_1;
	cr_assert_eq(rondo_spawn(2, run_rank, &job), 128 + SIGKILL);
	cr_assert(strstr(job.outcome->reason, "rank 1"), "%s", job.outcome->reason);
}

/* Its other threads go on; only its part of the step never comes. */
static void stall_rank_1(int rank, int step)
{
	if (rank == 1 && step == 3)
		pause();
}

static void be_impatient(int rank)
{
	(void)rank;
	setenv("RONDO_TIMEOUT_MS", "1000", 1);
}

Test(cuda, a_silent_rank_ends_the_others_with_its_name)
{
	struct job job = make_cuda_job();
	need_gpus(scratch_remove);
	job.prepare = be_impatient;
	job.before_step = stall_rank_1;
	cr_assert_neq(rondo_spawn(2, run_rank, &job), 0);
	cr_assert(strstr(job.outcome->reason, "rank 1"), "%s", job.outcome->reason);
}

/* ---- Models ---------------------------------------------------------------------------------- */

/* Every kind of model trains on GPUs as on the CPU. */

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
