#include "gpu/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/thread.h"
#include "comm/run.h"
#include "gpu/peers.h"
#include "gpu/transfers.h"
#include "gpu/watch.h"

/* Interval of the checks for failures, while streams are busy. */
#define CHECK_MS 10

/* The caller of a job waits for this. */
struct waiter {
	bool done;
	int error;
	char reason[RD_REASON_SIZE];
};

enum job_kind { MAP, STAGE, EXCHANGE };

struct job {
	struct job *next;
	enum job_kind kind;
	struct waiter *waiter; /* NULL: nobody waits, and a MAP's task is the job's */
	struct rd_direct_job direct; /* MAP */
	struct rd_buffer_addresses *addresses;
	struct rd_staged *staged; /* STAGE */
	const char **from; /* EXCHANGE */
	uint32_t number;
	int count;
	struct rd_task tasks[];
};

struct rd_progress_thread {
	struct rd_gpu *gpu;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct job *first, **last;
	bool closing, busy;

	uint32_t seen; /* of flags->finished, and since when it is that */
	uint32_t moved; /* of that call's transfers, by then */
	int64_t since_ms; /* 0: not checked yet */
	int64_t failed_ns; /* since when the waits of streams are ended; 0: they are not */
	int reported_ms; /* of that wait, as slow */
	uint32_t slow_call; /* the call of the latest kernel that was reported as slow */
};

/* ---- Watching ------------------------------------------------------------------------------ */

static uint32_t last_number(const struct rd_gpu *gpu)
{
	return __atomic_load_n(&gpu->number, __ATOMIC_ACQUIRE);
}

/* The peer that this call's stream waits for; this rank itself: for none. */
static int missing_peer(const struct rd_gpu *gpu, uint32_t number)
{
	const struct rd_queued *queued = &gpu->queued[number % RD_RUN_AHEAD];
	const struct rd_host_flags *host_flags = gpu->host_flags;

	if (queued->kind == RD_QUEUED_TRANSFERS)
		return rd_transfers_missing_peer(gpu);
	for (int peer = 0; peer < gpu->comm->size && peer < RD_WORK_RANKS; peer++)
		if (peer != gpu->comm->rank && queued->kind == RD_QUEUED_DIRECT &&
			!rd_flag_reached(&host_flags->entered[peer], queued->announced))
			return peer;
	for (int peer = 0; peer < gpu->comm->size && peer < RD_WORK_RANKS; peer++)
		if (peer != gpu->comm->rank && queued->kind == RD_QUEUED_DIRECT &&
			!rd_flag_reached(&host_flags->left[peer], queued->announced))
			return peer;
	return gpu->comm->rank;
}

static void report_unfinished(struct rd_gpu *gpu, uint32_t number, int64_t waited_ms)
{
	struct rondo_comm *comm = gpu->comm;
	int peer = missing_peer(gpu, number);

	if (peer != comm->rank) {
		rd_gpu_watch_report(gpu, waited_ms, peer, "in a call on devices");
		return;
	}
	rd_fail(RONDO_TIMEOUT, "rank %d's own device has not finished a call for %lld ms",
		comm->rank, (long long)waited_ms);
	rd_comm_fail(comm, RONDO_TIMEOUT, comm->rank);
	rd_gpu_watch(gpu);
}

static void report_slow(struct rd_progress_thread *progress, uint32_t number, int64_t waited_ms)
{
	struct rondo_comm *comm = progress->gpu->comm;
	int peer = missing_peer(progress->gpu, number);

	rd_comm_slow(comm, &progress->reported_ms, waited_ms, peer == comm->rank ? -1 : peer,
		"in a call on devices");
}

/* Reports a kernel that the caller launched: the kernel sets `slow` while it waits. */
static void report_slow_kernel(struct rd_progress_thread *progress)
{
	struct rd_gpu *gpu = progress->gpu;
	uint32_t slow = __atomic_exchange_n(&gpu->host_flags->abort_flag.slow, 0, __ATOMIC_RELAXED);
	uint32_t call = atomic_load(&gpu->comm->activity.calls);
	int reported_ms = 0;

	if (!slow || call == progress->slow_call)
		return;
	progress->slow_call = call;
	rd_comm_slow(gpu->comm, &reported_ms, RD_SLOW_MS, rd_gpu_watch_rank(gpu, slow - 1),
		"in a call on devices");
}

/* Counts up while transfers behind this call go on: a long group has no bound as a whole. */
static uint32_t moved(const struct rd_gpu *gpu, uint32_t finished)
{
	const struct rd_queued *next = &gpu->queued[(finished + 1) % RD_RUN_AHEAD];

	return finished != last_number(gpu) && next->kind == RD_QUEUED_TRANSFERS
		       ? rd_transfers_moved(gpu)
		       : 0;
}

/* Between jobs: bounds the wait of streams for launched work. */
static void watch_launched(struct rd_progress_thread *progress)
{
	struct rd_gpu *gpu = progress->gpu;
	uint32_t finished = __atomic_load_n(&gpu->stream_flags->finished, __ATOMIC_ACQUIRE);
	uint32_t now_moved = moved(gpu, finished);
	int64_t now_ms = rd_clock_ns() / 1000000;

	if (rd_gpu_watch(gpu))
		return;
	report_slow_kernel(progress);
	/* Its own stream's earlier work may take as long as it likes. */
	if (progress->since_ms == 0 || finished == last_number(gpu) || finished != progress->seen ||
		now_moved != progress->moved ||
		!rd_flag_reached(&gpu->stream_flags->ready, finished + 1)) {
		progress->seen = finished;
		progress->moved = now_moved;
		progress->since_ms = now_ms;
		progress->reported_ms = 0;
	} else if (now_ms - progress->since_ms > rd_comm_timeout_ms(gpu->comm)) {
		report_unfinished(gpu, finished + 1, now_ms - progress->since_ms);
	} else {
		report_slow(progress, finished + 1, now_ms - progress->since_ms);
	}
}

/* ---- Jobs ---------------------------------------------------------------------------------- */

static int run_staged(struct rd_gpu *gpu, struct job *job)
{
	/* No peer's silence: the caller's stream may have earlier work. */
	int err = rd_gpu_watch_flag(gpu, &gpu->stream_flags->ready, job->number, -1, 0);
	int ended;

	/* Also after a failure: the comm must see the tasks' turns end. */
	ended = rd_run(job->tasks, job->count);
	err = err ? err : ended;
	/* The failure is known before the stream goes on. */
	if (err)
		rd_gpu_watch(gpu);
	rd_staged_end(job->staged, err);
	return err;
}

static int run_job(struct rd_gpu *gpu, struct job *job)
{
	int err = 0;

	if (job->kind == STAGE)
		return run_staged(gpu, job);
	err = rd_gpu_watch(gpu);
	if (!err && job->kind == MAP)
		err = rd_direct_map(gpu, &job->direct, job->addresses);
	else if (!err)
		err = rd_transfers_exchange(gpu, job->tasks, job->count, job->from);
	return err;
}

static void end_waiter(struct rd_progress_thread *progress, struct waiter *waiter, int err)
{
	if (err)
		snprintf(waiter->reason, sizeof(waiter->reason), "%s", rondo_last_error());
	pthread_mutex_lock(&progress->lock);
	waiter->error = err;
	waiter->done = true;
	pthread_cond_broadcast(&progress->change);
	pthread_mutex_unlock(&progress->lock);
}

/* A captured call that is refused harms no other call: all ranks refuse it. */
static void take_job(struct rd_progress_thread *progress, struct job *job)
{
	struct rd_gpu *gpu = progress->gpu;
	int err = run_job(gpu, job);

	if (err && err != RONDO_UNSUPPORTED && !atomic_load(&gpu->comm->failed))
		err = rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	if (job->waiter)
		end_waiter(progress, job->waiter, err);
	else if (job->kind == MAP)
		rd_tasks_finish(job->tasks, job->count);
	/* The streams then go on, with undefined results: synchronising them returns the error. */
	rd_gpu_watch(gpu);
	progress->since_ms = 0;
	free(job);
}

static bool is_done(const struct rd_gpu *gpu)
{
	return rd_flag_reached(&gpu->stream_flags->finished, last_number(gpu));
}

static bool is_pending(const struct rd_progress_thread *progress)
{
	return progress->gpu->kernel != RD_KERNEL_STAGED || !is_done(progress->gpu);
}

/* With the lock held, and again on return. */
static void idle(struct rd_progress_thread *progress)
{
	struct rd_gpu *gpu = progress->gpu;

	if (!is_pending(progress)) {
		pthread_cond_wait(&progress->change, &progress->lock);
		return;
	}
	rd_condition_wait_ms(&progress->change, &progress->lock, CHECK_MS);
	pthread_mutex_unlock(&progress->lock);
	watch_launched(progress);
	/* Also after a failure that came when nothing was left to do but wait for streams. */
	if (atomic_load(&gpu->comm->failed) && !is_done(gpu))
		rd_gpu_end_waits(gpu, &progress->failed_ns);
	pthread_mutex_lock(&progress->lock);
}

static void *progress_main(void *argument)
{
	struct rd_progress_thread *progress = argument;

	rd_log_rank(progress->gpu->comm->rank);
	/* It maps peers' memory while the program's threads capture. */
	progress->gpu->ops->ignore_captures();
	pthread_mutex_lock(&progress->lock);
	while (progress->first || !progress->closing) {
		struct job *job = progress->first;

		if (!job) {
			idle(progress);
			continue;
		}
		progress->first = job->next;
		if (!progress->first)
			progress->last = &progress->first;
		progress->busy = true;
		pthread_mutex_unlock(&progress->lock);
		take_job(progress, job);
		pthread_mutex_lock(&progress->lock);
		progress->busy = false;
		pthread_cond_broadcast(&progress->change);
	}
	pthread_mutex_unlock(&progress->lock);
	return NULL;
}

/* ---- Life ---------------------------------------------------------------------------------- */

int rd_progress_create(struct rd_gpu *gpu)
{
	struct rd_progress_thread *progress = calloc(1, sizeof(*progress));

	if (!progress)
		return rd_fail(RONDO_MEMORY, "no memory for a comm's device");
	progress->gpu = gpu;
	progress->last = &progress->first;
	progress->seen = gpu->number;
	pthread_mutex_init(&progress->lock, NULL);
	rd_condition_init(&progress->change);
	gpu->progress = progress;

	int err = rd_thread_start(&progress->thread, 0, progress_main, progress);

	if (!err)
		return 0;
	gpu->progress = NULL;
	free(progress);
	return rd_fail(RONDO_SYSTEM, "cannot start a comm's thread: %s", strerror(err));
}

static struct job *make_job(
	enum job_kind kind, const struct rd_task *tasks, int count, struct waiter *waiter)
{
	struct job *job = calloc(1, sizeof(*job) + (size_t)count * sizeof(*tasks));

	if (!job) {
		rd_fail(RONDO_MEMORY, "no memory to queue %d calls", count);
		return NULL;
	}
	job->kind = kind;
	job->waiter = waiter;
	job->count = count;
	memcpy(job->tasks, tasks, (size_t)count * sizeof(*tasks));
	return job;
}

/* With a waiter, returns its error. */
static int queue_job(struct rd_progress_thread *progress, struct job *job)
{
	struct waiter *waiter = job->waiter;

	pthread_mutex_lock(&progress->lock);
	*progress->last = job;
	progress->last = &job->next;
	pthread_cond_broadcast(&progress->change);
	while (waiter && !waiter->done)
		pthread_cond_wait(&progress->change, &progress->lock);
	pthread_mutex_unlock(&progress->lock);
	return waiter && waiter->error ? rd_fail(waiter->error, "%s", waiter->reason) : 0;
}

int rd_progress_map(struct rd_progress_thread *progress, const struct rd_task *task,
	const struct rd_direct_job *direct, struct rd_buffer_addresses *addresses)
{
	struct waiter waiter = { 0 };
	struct job *job = make_job(MAP, task, 1, direct->waits ? &waiter : NULL);

	if (!job)
		return RONDO_MEMORY;
	job->direct = *direct;
	job->direct.call = &job->tasks[0].call;
	job->addresses = addresses;
	return queue_job(progress, job);
}

int rd_progress_stage(struct rd_progress_thread *progress, struct rd_task *tasks, int count,
	struct rd_staged *staged, uint32_t number)
{
	struct job *job = make_job(STAGE, tasks, count, NULL);

	if (!job) {
		rd_comm_fail(progress->gpu->comm, RONDO_MEMORY, progress->gpu->comm->rank);
		/* The comm must see their turns end. */
		rd_run(tasks, count);
		rd_staged_end(staged, RONDO_MEMORY);
		return RONDO_MEMORY;
	}
	job->staged = staged;
	job->number = number;
	return queue_job(progress, job);
}

int rd_progress_capture_transfers(
	struct rd_progress_thread *progress, struct rd_task *tasks, int count, const char *from[])
{
	struct waiter waiter = { 0 };
	struct job *job = make_job(EXCHANGE, tasks, count, &waiter);

	if (!job)
		return RONDO_MEMORY;
	job->from = from;
	return queue_job(progress, job);
}

static void finish(struct rd_progress_thread *progress)
{
	struct rd_gpu *gpu = progress->gpu;

	pthread_mutex_lock(&progress->lock);
	while (progress->first || progress->busy)
		pthread_cond_wait(&progress->change, &progress->lock);
	pthread_mutex_unlock(&progress->lock);
	rd_gpu_await(gpu, gpu->number);
	/* Kernels that wait for peers by themselves are not counted. */
	if (gpu->last && !gpu->broken && rd_device_stream_follow(gpu->stream, gpu->last) == 0)
		gpu->ops->stream_synchronize(gpu->device, gpu->stream);
}

void rd_progress_destroy(struct rd_progress_thread *progress)
{
	if (!progress)
		return;
	finish(progress);
	pthread_mutex_lock(&progress->lock);
	progress->closing = true;
	pthread_cond_broadcast(&progress->change);
	pthread_mutex_unlock(&progress->lock);
	pthread_join(progress->thread, NULL);
	pthread_mutex_destroy(&progress->lock);
	pthread_cond_destroy(&progress->change);
	free(progress);
}
