/*
 * Training on GPUs gives the CPU's losses and parameters. Runs on real GPUs (tests/gpu.sh), or on
 * an emulated driver (tests/driver), which ctest puts before the loader; else it is skipped. Ranks
 * share the GPUs.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/job.h"
#include "train/base/rng.h"
#include "train/scratch.h"

TestSuite(cuda, .init = make_data, .fini = scratch_remove, .timeout = 240);

enum gpus { NO_GPU, REAL_GPUS, EMULATED_GPUS };

/* In a process of its own: CUDA does not outlive a fork. */
static enum gpus find_gpus(void)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		struct device *device;
		if (device_create(&device, DEVICE_CUDA, 0))
			_exit(NO_GPU);
		int emulated = !strcmp(device->name, "emulated GPU");
		device_destroy(device);
		_exit(emulated ? EMULATED_GPUS : REAL_GPUS);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* A skip bypasses the end of a test. */
static void skip(const char *reason)
{
	scratch_remove();
	cr_skip_test("%s", reason);
}

static void need_gpus(void)
{
	if (find_gpus() == NO_GPU)
		skip("there is no GPU here, or no CUDA driver, or no cuBLAS, or this build has no "
		     "CUDA");
}

/* Runs it in a process of its own, which must succeed. */
static void expect_success(int (*run)(void))
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		int err = run();
		if (err)
			fprintf(stderr, "%s\n", failure());
		_exit(err != 0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

static struct job make_cuda_job(void)
{
	struct job job = make_job();
	job.options.device = DEVICE_CUDA;
	return job;
}

/* ---- Operations ---- */

#define ROWS 37
#define COLUMNS 45
#define ROOM (64 * 64)

/* The operands of an operation on a device: a and b are inputs, c is the output. */
struct operands {
	struct device *device;
	float *a, *b, *c; /* [ROOM] */
	int32_t *labels; /* [ROOM] */
	double *sums; /* [2] */
};

static int open_operands(struct operands *o, enum device_kind kind)
{
	float numbers[ROOM];
	int32_t labels[ROOM];
	struct rng rng = rng_make(5, 0);
	int err = device_create(&o->device, kind, 0);
	if (err)
		return err;
	const struct device_ops *ops = o->device->ops;
	err = ops->alloc(o->device, (void **)&o->a, sizeof(numbers)) ||
	      ops->alloc(o->device, (void **)&o->b, sizeof(numbers)) ||
	      ops->alloc(o->device, (void **)&o->c, sizeof(numbers)) ||
	      ops->alloc(o->device, (void **)&o->labels, sizeof(labels)) ||
	      ops->alloc(o->device, (void **)&o->sums, 2 * sizeof(double));
	float *const all[] = { o->a, o->b, o->c };
	for (int i = 0; !err && i < 3; i++) {
		for (int n = 0; n < ROOM; n++)
			numbers[n] = rng_between(&rng, -2, 2);
		ops->put(o->device, all[i], numbers, sizeof(numbers));
	}
	for (int n = 0; n < ROOM; n++)
		labels[n] = rng_below(&rng, COLUMNS);
	ops->put(o->device, o->labels, labels, sizeof(labels));
	return err;
}

static void close_operands(struct operands *o)
{
	const struct device_ops *ops = o->device->ops;
	ops->free(o->device, o->a);
	ops->free(o->device, o->b);
	ops->free(o->device, o->c);
	ops->free(o->device, o->labels);
	ops->free(o->device, o->sums);
	device_destroy(o->device);
}

/* Runs operation number `which`; false: there are no more. */
static bool operate(const struct operands *o, int which)
{
	struct device *device = o->device;
	const struct device_ops *ops = device->ops;
	switch (which) {
	case 0:
	case 1:
	case 2:
	case 3:
		device_multiply(device, ROWS, COLUMNS, 19, o->a, which & 1 ? TRANSPOSED : AS_IS,
			o->b, which & 2 ? TRANSPOSED : AS_IS, which == 2, o->c);
		return true;
	case 4: /* a sum of nothing */
		device_multiply(device, ROWS, COLUMNS, 0, o->a, TRANSPOSED, o->b, AS_IS, 0, o->c);
		return true;
	case 5: /* and nothing at all */
		device_multiply(device, 0, COLUMNS, 3, o->a, AS_IS, o->b, AS_IS, 0, o->c);
		ops->spread(device, 0, COLUMNS, o->a, o->c);
		ops->relu(device, 0, o->a, o->c);
		ops->relu_grad(device, 0, o->a, o->b, o->c);
		ops->loss_grad(device, 0, COLUMNS, o->a, o->labels, 1, o->c);
		return true;
	case 6:
		ops->spread(device, ROWS, COLUMNS, o->a, o->c);
		return true;
	case 7:
		ops->column_sums(device, ROWS, COLUMNS, o->a, o->c);
		return true;
	case 8:
		ops->column_sums(device, 0, COLUMNS, o->a, o->c);
		return true;
	case 9:
		ops->relu(device, ROWS * COLUMNS, o->a, o->c);
		return true;
	case 10:
		ops->relu_grad(device, ROWS * COLUMNS, o->a, o->b, o->c);
		return true;
	case 11:
		ops->loss(device, ROWS, COLUMNS, o->a, o->labels, o->sums);
		return true;
	case 12:
		ops->loss(device, 0, COLUMNS, o->a, o->labels, o->sums);
		return true;
	case 13:
		ops->loss_grad(device, ROWS, COLUMNS, o->a, o->labels, 0.5f, o->c);
		return true;
	case 14:
		ops->sgd(device, &(struct sgd){ .rate = 0.25f }, ROWS * COLUMNS, o->a, NULL, o->c,
			NULL);
		return true;
	}
	return false;
}

/* Numbers of 2 at most, sums of 19 products at most, or of 37 losses: a few units in their last
   place, in whatever order they are added. */
static int compare(const struct operands *cpu, const struct operands *gpu, int which)
{
	static float right[ROOM], got[ROOM];
	double right_sums[2], got_sums[2];
	int err = cpu->device->ops->get(cpu->device, right, cpu->c, sizeof(right)) ||
		  cpu->device->ops->get(cpu->device, right_sums, cpu->sums, sizeof(right_sums)) ||
		  gpu->device->ops->get(gpu->device, got, gpu->c, sizeof(got)) ||
		  gpu->device->ops->get(gpu->device, got_sums, gpu->sums, sizeof(got_sums));
	for (int i = 0; !err && i < ROOM; i++)
		if (!(fabsf(right[i] - got[i]) <= 1e-5f))
			err = fail("operation %d: element %d is %g, not %g", which, i, got[i],
				right[i]);
	for (int i = 0; !err && i < 2; i++)
		if (!(fabs(right_sums[i] - got_sums[i]) <= 1e-9))
			err = fail("operation %d: sum %d is %g, not %g", which, i, got_sums[i],
				right_sums[i]);
	return err;
}

static int compare_all(void)
{
	struct operands cpu, gpu;
	int err = open_operands(&cpu, DEVICE_CPU), which = 0;
	if (!err)
		err = open_operands(&gpu, DEVICE_CUDA);
	for (; !err && operate(&cpu, which); which++) {
		operate(&gpu, which);
		err = compare(&cpu, &gpu, which);
	}
	if (err)
		return err;
	close_operands(&cpu);
	close_operands(&gpu);
	return which == 15 ? 0 : fail("only %d operations", which);
}

Test(cuda, every_operation_gives_the_cpus_numbers)
{
	need_gpus();
	expect_success(compare_all);
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
	need_gpus();
	expect_success(put_many);
}

/* ---- The same as on the CPU ---- */

static void expect_ranks_like_the_cpu(const char *kernel, double bucket_mb, int size)
{
	struct job one = make_job(), many = make_cuda_job();
	need_gpus();
	setenv("RONDO_KERNEL", kernel, 1);
	run_plain(&one);
	many.options.bucket_mb = bucket_mb;
	run_ranks(&many, size);
	expect_near(many.outcome, one.outcome, size);
	finish_job(&many);
	finish_job(&one);
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

Test(cuda, many_small_buckets_change_nothing_but_rounding)
{
	expect_ranks_like_the_cpu("auto", 0.001, 2);
}

Test(cuda, a_rank_without_a_launcher_trains_as_one)
{
	struct job one = make_job(), alone = make_cuda_job();
	need_gpus();
	run_plain(&one);
	pid_t pid = fork();
	if (pid == 0)
		_exit(run_rank(&alone));
	int status;
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0, "%s", alone.outcome->reason);
	expect_near(alone.outcome, one.outcome, 1);
	finish_job(&one);
	finish_job(&alone);
}

Test(cuda, a_run_is_the_same_every_time)
{
	need_gpus();
	expect_same_hash(make_cuda_job(), make_cuda_job(), 2);
}

/* ---- Checkpoints ---- */

Test(cuda, a_resumed_run_goes_on_to_the_bit)
{
	struct job whole = make_cuda_job(), half = make_cuda_job(), rest = make_cuda_job();
	need_gpus();
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
	finish_job(&whole);
	finish_job(&half);
	finish_job(&rest);
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
	finish_job(&one);
	finish_job(&first);
	finish_job(&second);
}

Test(cuda, a_checkpoint_moves_between_the_cpu_and_gpus)
{
	need_gpus();
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
	need_gpus();
	job.reports = true;
	run_ranks(&job, 2);
	const char *report = job.outcome->report;
	double hidden = number_before(report, " % hidden behind backward");
	cr_assert(hidden >= 0 && hidden <= 100, "%s", report);
	cr_assert_gt(number_before(report, " images/s; communication"), 0);
	finish_job(&job);
}

/* ---- Failures ---- */

static void hide_devices(int rank)
{
	(void)rank;
	setenv("RONDO_DEVICE", "none", 1);
}

static void emulated_devices(int rank)
{
	(void)rank;
	setenv("RONDO_DEVICE", "emulated:2", 1);
}

/* The line names the missing part, and the way without it. */
Test(cuda, without_a_gpu_one_line_says_what_to_do)
{
	enum gpus gpus = find_gpus();
	struct job hidden = make_cuda_job(), missing = make_cuda_job();
	hidden.prepare = hide_devices;
	expect_failure(&hidden, 1, "--device cpu");
	if (gpus == NO_GPU)
		expect_failure(
			&missing, 1, "--device cuda: th"); /* there is no, this build has no */
	else
		finish_job(&missing);
}

Test(cuda, emulated_devices_are_refused)
{
	struct job job = make_cuda_job();
	need_gpus();
	job.prepare = emulated_devices;
	expect_failure(&job, 1, "RONDO_DEVICE is \"emulated:2\"");
}

/* In the middle of the fourth step or so. */
static void lose_device_of_rank_1(int rank)
{
	if (rank == 1)
		setenv("EMULATED_LAUNCHES", "60", 1);
}

Test(cuda, a_lost_device_ends_all_ranks_and_is_named)
{
	struct job job = make_cuda_job();
	if (find_gpus() != EMULATED_GPUS)
		skip("only emulated devices get lost on demand");
	job.prepare = lose_device_of_rank_1;
	expect_failure(
		&job, 3, "GPU 1 (emulated GPU): cannot run a kernel: the emulated device is lost");
}

static void kill_rank_1(int rank, int step)
{
	if (rank == 1 && step == 3)
		raise(SIGKILL);
}

Test(cuda, a_killed_rank_ends_the_others_with_its_name)
{
	struct job job = make_cuda_job();
	need_gpus();
	job.before_step = kill_rank_1;
	cr_assert_eq(rondo_spawn(2, run_rank, &job), 128 + SIGKILL);
	cr_assert(strstr(job.outcome->reason, "rank 1"), "%s", job.outcome->reason);
	finish_job(&job);
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
	need_gpus();
	job.prepare = be_impatient;
	job.before_step = stall_rank_1;
	cr_assert_neq(rondo_spawn(2, run_rank, &job), 0);
	cr_assert(strstr(job.outcome->reason, "rank 1"), "%s", job.outcome->reason);
	finish_job(&job);
}
