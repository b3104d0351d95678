/* Ranks on GPUs train beyond the hundredth step, where the host first waits for a number again; as
   processes and as threads, whose driver has one lock. Without a GPU (gpus.h) it is skipped. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/data/sets.h"
#include "train/device/gpus.h"
#include "train/job.h"
#include "train/scratch.h"
#include "train/threads.h"

TestSuite(cuda_steps, .init = scratch_make, .fini = scratch_remove, .timeout = 600);

#define SAMPLES_A_STEP 4
#define MANY_STEPS 105
#define MANY_LOSS_BOUND RUN_LOSS_BOUND(MANY_STEPS, MLP_TERMS)
#define LOSS_LINE "[  420/  420]" /* of the steps behind the hundredth */

static struct job job;
static int ranks;
static bool watches; /* operations, in this process */

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

/* The loss on the line of the last steps. */
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
	/* Lines have six decimal places. */
	cr_expect_float_eq(late_loss(job.outcome->report), late_loss(cpu.outcome->report),
		MANY_LOSS_BOUND + 1e-6, "%s%s", job.outcome->report, cpu.outcome->report);
	cr_expect_float_eq(job.outcome->test.loss, cpu.outcome->test.loss, TESTS * MANY_LOSS_BOUND);
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

/* ---- Operations of ranks that are threads, watched ---- */

static const struct device_ops *real; /* the GPUs' */
static struct device_ops watched;
static _Thread_local int own_rank, steps, waits;
static _Atomic int ended, warm, early;
static sem_t begun; /* a step, before all are warm */
static sem_t reads; /* rank 0, before others launch a step */
static int step_read; /* rank 0 reads behind the next one; 0: none */

static void sleep_until(sem_t *event, int seconds)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	while (sem_timedwait(event, &until) && errno == EINTR)
		;
}

/* A rank's second wait ends its warm-up; the first is for its first values. The last rank takes a
   second more, or until another one begins a step. */
static int watch_wait(struct device *device)
{
	int err = real->wait(device);
	if (++waits != 2)
		return err;
	if (++ended == ranks)
		sleep_until(&begun, 1);
	warm++;
	return err;
}

/* A step begins with its label. On other ranks, the step before the one behind which rank 0 reads
   waits for that. */
static void watch_put(struct device *device, void *to, const void *from, size_t size)
{
	if (size == sizeof(int32_t) && ++steps == step_read && own_rank > 0) {
		sleep_until(&reads, 20);
		/* So that rank 0 is in the driver; no result depends on it. */
		usleep(100000);
	}
	real->put(device, to, from, size);
}

static int watch_get(struct device *device, void *to, const void *from, size_t size)
{
	for (int rank = 1; own_rank == 0 && steps == step_read + 1 && rank < ranks; rank++)
		sem_post(&reads);
	return real->get(device, to, from, size);
}

/* This test is linked so that all calls of device_create() come here. */
int __real_device_create(struct device **device, enum device_kind kind, int local_rank);
int __wrap_device_create(struct device **device, enum device_kind kind, int local_rank);
int __wrap_device_create(struct device **device, enum device_kind kind, int local_rank)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int err = __real_device_create(device, kind, local_rank);
	if (err || kind != DEVICE_CUDA || !watches)
		return err;
	own_rank = local_rank;
	pthread_mutex_lock(&lock);
	if (!real) {
		real = (*device)->ops;
		watched = *real;
		watched.wait = watch_wait;
		watched.put = watch_put;
		watched.get = watch_get;
	}
	pthread_mutex_unlock(&lock);
	(*device)->ops = &watched;
	return 0;
}

/* ---- Threads ---- */

static int run(const struct place_of_rank *place)
{
	return run_rank_as(&job, place->config, place->local_rank);
}

static int run_threads(void)
{
	watches = true;
	sem_init(&begun, 0, 0);
	sem_init(&reads, 0, 0);
	return threads_run(&job.options, ranks, 0, run) ? fail("%s", job.outcome->reason) : 0;
}

/* After step 100 rank 0 waits for losses before the others launch the buckets of these. */
Test(cuda_steps, threads_train_beyond_the_hundredth_step)
{
	need_samples(MANY_STEPS * SAMPLES_A_STEP);
	for (ranks = 2; ranks <= 4; ranks += 2) {
		job = make_steps(DEVICE_CUDA);
		step_read = ranks == SAMPLES_A_STEP ? 99 : 0;
		expect_success(run_threads);
		expect_like_the_cpu();
	}
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
}
