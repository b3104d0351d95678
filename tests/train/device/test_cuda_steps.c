/* Ranks on GPUs train beyond the hundredth step, where the host first waits for a number again; as
   processes and as threads, whose driver has one lock. Without a GPU (gpus.h) it is skipped. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "train/base/fail.h"
#include "train/data/sets.h"
#include "train/device/gpus.h"
#include "train/job.h"
#include "train/scratch.h"
#include "train/threads.h"

TestSuite(cuda_steps, .init = scratch_make, .fini = scratch_remove, .timeout = 240);

#define SAMPLES_A_STEP 4
#define MANY_STEPS 105
#define LOSS_LINE "[  400/  420]" /* of step 100, after as many samples */

static struct job job;
static int ranks;

static struct job make_steps(enum device_kind device)
{
	struct job made = make_job();
	made.options.device = device;
	made.options.epochs = 1;
	made.options.global_batch = SAMPLES_A_STEP;
	made.options.learning_rate = 0.05;
	made.reports = true;
	return made;
}

/* The loss on the line of step 100. */
static double late_loss(const char *report)
{
	const char *line = strstr(report, LOSS_LINE);
	cr_assert_not_null(line, "no %s in: %s", LOSS_LINE, report);
	while (line > report && line[-1] != '\n')
		line--;
	return atof(line + strlen("loss: "));
}

/* All ranks have the same parameters, and these are the CPU's but for the order of sums. */
static void expect_like_the_cpu(void)
{
	struct job cpu = make_steps(DEVICE_CPU);
	run_ranks(&cpu, ranks);
	for (int rank = 1; rank < ranks; rank++)
		cr_expect_eq(job.outcome->hashes[rank], job.outcome->hashes[0]);
	cr_expect_float_eq(late_loss(job.outcome->report), late_loss(cpu.outcome->report), 1e-3,
		"%s%s", job.outcome->report, cpu.outcome->report);
	cr_expect_float_eq(job.outcome->test.loss, cpu.outcome->test.loss, TESTS * 1e-3);
	finish_job(&cpu);
	finish_job(&job);
}

static void need_samples(size_t count)
{
	need_gpus(scratch_remove);
	cr_assert_eq(
		set_draw(set_named("drawn"), scratch_path(""), count, TESTS), 0, "%s", failure());
}

Test(cuda_steps, processes_train_beyond_the_hundredth_step)
{
	need_samples(MANY_STEPS * SAMPLES_A_STEP);
	for (ranks = 2; ranks <= 4; ranks += 2) {
		job = make_steps(DEVICE_CUDA);
		run_ranks(&job, ranks);
		expect_like_the_cpu();
	}
}

/* ---- Threads ---- */

static int run(const struct place_of_rank *place)
{
	return run_rank_as(&job, place->config, place->local_rank);
}

static int run_threads(void)
{
	return threads_run(&job.options, ranks, 0, run) ? fail("%s", job.outcome->reason) : 0;
}

Test(cuda_steps, threads_train_beyond_the_hundredth_step)
{
	need_samples(MANY_STEPS * SAMPLES_A_STEP);
	for (ranks = 2; ranks <= 4; ranks += 2) {
		job = make_steps(DEVICE_CUDA);
		expect_success(run_threads);
		expect_like_the_cpu();
	}
}

/* ---- Warm-up ---- */

static struct device_ops counting; /* the GPUs', with a wait that counts */
static int (*wait_for_gpu)(struct device *device);
static _Atomic int ended, warm, early;
static sem_t begun; /* a step, before all are warm */

/* A rank's second wait ends its warm-up; the first is for its first values. The last rank takes a
   second more, or until another one begins a step. */
static int count_wait(struct device *device)
{
	static _Thread_local int waits;
	int err = wait_for_gpu(device);
	if (++waits != 2)
		return err;
	if (++ended == ranks) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec++;
		sem_timedwait(&begun, &until);
	}
	warm++;
	return err;
}

/* This test is linked so that all calls of device_create() come here. */
int __real_device_create(struct device **device, enum device_kind kind, int local_rank);
int __wrap_device_create(struct device **device, enum device_kind kind, int local_rank);
int __wrap_device_create(struct device **device, enum device_kind kind, int local_rank)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int err = __real_device_create(device, kind, local_rank);
	if (err || kind != DEVICE_CUDA)
		return err;
	pthread_mutex_lock(&lock);
	if (!wait_for_gpu) {
		counting = *(*device)->ops;
		wait_for_gpu = counting.wait;
		counting.wait = count_wait;
	}
	pthread_mutex_unlock(&lock);
	(*device)->ops = &counting;
	return 0;
}

static void count_early_step(int rank, int step)
{
	(void)rank;
	if (step == 0 && warm < ranks) {
		early++;
		sem_post(&begun);
	}
}

static int run_counted(void)
{
	sem_init(&begun, 0, 0);
	int err = run_threads();
	if (!err && warm < ranks)
		err = fail("%d ranks have warmed up", warm);
	return !err && early
		       ? fail("%d ranks of %d began a step before all were warm", early, ranks)
		       : err;
}

/* A bucket under way would keep the driver's lock from a thread that still loads code. */
Test(cuda_steps, no_rank_begins_before_all_are_warm)
{
	need_samples(SAMPLES_A_STEP);
	ranks = 4;
	job = make_steps(DEVICE_CUDA);
	job.reports = false;
	job.before_step = count_early_step;
	expect_success(run_counted);
	finish_job(&job);
}
