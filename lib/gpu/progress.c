#include "gpu/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "gpu/direct.h"
#include "gpu/peers.h"
#include "gpu/staging.h"
#include "base/thread.h"
#include "gpu/transfers.h"
#include "gpu/watch.h"
#include "base/futex.h"

/* Interval of the checks for failures, while streams are busy. */
#define CHECK_MS 10
/* A fused kernel waits twice: to enter, and to leave; and some time before it begins. */
#define KERNEL_WAITS 2
#define KERNEL_BEGINS_MS 10000

/* The caller of a call that is captured waits for this. */
struct capture {
	struct rd_work *work;
	const char **from; /* of transfers */
	bool done;
	int error;
	char reason[RD_REASON_SIZE];
};

struct job {
	struct job *next;
	struct capture *capture; /* NULL: the call is to be run */
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

	uint32_t launched; /* the last job whose end is queued on the gpu's stream */
	uint32_t seen; /* of flags->finished, and since when it is that */
	int64_t since_ms; /* 0: not checked yet */
	int reported_ms; /* of that wait, as slow */
	uint32_t slow_call; /* the call of the latest kernel that was reported as slow */
	bool transfers[RD_READY]; /* by number: what the job is */
	struct rd_stage *stage; /* NULL: nothing has been staged yet */
};

/* ---- Watching ------------------------------------------------------------------------------ */

/* The peer that is behind in this job, or in the calls announced; this rank itself: none is. */
static int missing_peer(const struct rd_gpu *gpu, uint32_t job)
{
	const struct rd_host_flags *host_flags = gpu->host_flags;

	if (gpu->progress->transfers[job % RD_READY])
		return rd_transfers_missing_peer(gpu);
	for (int peer = 0; peer < gpu->comm->size && peer < RD_WORK_RANKS; peer++)
		if (peer != gpu->comm->rank && gpu->kernel == RD_KERNEL_STEPPED &&
			!rd_flag_reached(&host_flags->left[peer], gpu->announced))
			return peer;
	return gpu->comm->rank;
}

/* Bound of the time in which launched work finishes no call. A fused kernel can name the rank that
   it waits for; the host cannot, and so reports only after it. Transfers' copies wait for no rank.
 */
static int64_t job_timeout_ms(const struct rd_gpu *gpu, uint32_t job)
{
	int64_t timeout_ms = gpu->comm->settings.timeout_ms;

	if (gpu->kernel != RD_KERNEL_FUSED || gpu->progress->transfers[job % RD_READY])
		return timeout_ms;
	return KERNEL_WAITS * timeout_ms + KERNEL_BEGINS_MS;
}

static void report_unfinished(struct rd_gpu *gpu, uint32_t job, int64_t waited_ms)
{
	struct rondo_comm *comm = gpu->comm;
	int peer = missing_peer(gpu, job);

	if (peer != comm->rank) {
		rd_gpu_watch_report(gpu, waited_ms, peer, "in a call on devices");
		return;
	}
	rd_fail(RONDO_TIMEOUT, "rank %d's own device has not finished a call for %lld ms",
		comm->rank, (long long)waited_ms);
	rd_comm_fail(comm, RONDO_TIMEOUT, comm->rank);
	rd_gpu_watch(gpu);
}

static void report_slow(struct rd_progress_thread *progress, uint32_t job, int64_t waited_ms)
{
	struct rondo_comm *comm = progress->gpu->comm;
	int peer = missing_peer(progress->gpu, job);

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

/* Between jobs: bounds the wait of streams for launched work. */
static void watch_launched(struct rd_progress_thread *progress)
{
	struct rd_gpu *gpu = progress->gpu;
	uint32_t finished = __atomic_load_n(&gpu->stream_flags->finished, __ATOMIC_ACQUIRE);
	int64_t now_ms = rd_clock_ns() / 1000000;

	if (rd_gpu_watch(gpu))
		return;
	report_slow_kernel(progress);
	/* Its own stream's earlier work may take as long as it likes. */
	if (progress->since_ms == 0 || finished == progress->launched ||
		finished != progress->seen ||
		!rd_flag_reached(rd_ready(gpu->stream_flags, finished + 1), finished + 1)) {
		progress->seen = finished;
		progress->since_ms = now_ms;
		progress->reported_ms = 0;
	} else if (now_ms - progress->since_ms > job_timeout_ms(gpu, finished + 1)) {
		report_unfinished(gpu, finished + 1, now_ms - progress->since_ms);
	} else {
		report_slow(progress, finished + 1, now_ms - progress->since_ms);
	}
}

/* ---- Jobs ---------------------------------------------------------------------------------- */

static int run_collective(struct rd_progress_thread *progress, struct rd_task *task)
{
	struct rd_work work;
	bool direct;
	int err = rd_direct_work(progress->gpu, &task->call, &work, &direct);

	if (err || direct) {
		rd_turn_begin(task);
		if (!err)
			err = rd_gpu_watch(progress->gpu);
		if (!err)
			err = rd_direct_exchange(progress->gpu, &task->call, false, &work, &direct);
		if (!err && direct)
			err = rd_direct_queue(progress->gpu, &work);
		if (err && !atomic_load(&progress->gpu->comm->failed))
			rd_comm_fail(progress->gpu->comm, err, progress->gpu->comm->rank);
		if (err || direct)
			rd_turn_end(task, false);
	}
	if (!err && !direct)
		err = rd_stage_run(&progress->stage, progress->gpu, task);
	return err;
}

/* Replays of the graph need no host: the kernel gets all addresses now. */
static int prepare_capture(
	struct rd_progress_thread *progress, struct rd_task *task, struct rd_work *work)
{
	struct rd_gpu *gpu = progress->gpu;
	bool direct = true;
	int err;

	rd_turn_begin(task);
	err = rd_gpu_watch(gpu);
	if (!err)
		err = rd_direct_exchange(gpu, &task->call, true, work, &direct);
	if (err && !atomic_load(&gpu->comm->failed))
		rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	rd_turn_end(task, false);
	if (!err && !direct)
		err = rd_fail(RONDO_UNSUPPORTED,
			"%s cannot be captured in a graph: some rank's buffer cannot be mapped by "
			"other processes, and would go through host memory",
			rd_collective_name(task->call.problem.collective));
	return err;
}

static void run_capture(struct rd_progress_thread *progress, struct job *job)
{
	struct capture *capture = job->capture;
	int err = capture->from ? rd_transfers_exchange(&progress->stage, progress->gpu, job->tasks,
					  job->count, capture->from)
				: prepare_capture(progress, &job->tasks[0], capture->work);

	if (err)
		snprintf(capture->reason, sizeof(capture->reason), "%s", rondo_last_error());
	pthread_mutex_lock(&progress->lock);
	capture->error = err;
	capture->done = true;
	pthread_cond_broadcast(&progress->change);
	pthread_mutex_unlock(&progress->lock);
}

static int run_tasks(struct rd_progress_thread *progress, struct job *job)
{
	struct rd_gpu *gpu = progress->gpu;
	bool transfers = job->tasks[0].call.problem.collective == RD_TRANSFER;
	/* No peer's silence: the caller's stream may have earlier work. */
	int err = rd_gpu_watch_flag(gpu, rd_ready(gpu->stream_flags, job->number), job->number, -1);

	if (err)
		return rd_run(job->tasks, job->count);
	progress->transfers[job->number % RD_READY] = transfers;
	if (transfers)
		err = rd_transfers_run(&progress->stage, gpu, job->tasks, job->count);
	else
		err = run_collective(progress, &job->tasks[0]);
	if (!err)
		err = gpu->ops->write_flag(
			gpu->device, gpu->stream, &gpu->stream_flags->finished, job->number);
	return err;
}

static void run_job(struct rd_progress_thread *progress, struct job *job)
{
	struct rd_gpu *gpu = progress->gpu;
	int err = run_tasks(progress, job);

	progress->launched = job->number;
	progress->since_ms = 0;
	if (!err)
		return;
	/* The gpu's stream ends, then the caller's goes on, with undefined results: synchronising
	   it returns the error. */
	if (!atomic_load(&gpu->comm->failed))
		rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	rd_gpu_watch(gpu);
	rd_gpu_drain_failed(gpu);
	rd_flag_write(&gpu->stream_flags->finished, job->number);
}

static bool is_pending(const struct rd_progress_thread *progress)
{
	return progress->gpu->kernel != RD_KERNEL_STAGED ||
	       !rd_flag_reached(&progress->gpu->stream_flags->finished, progress->launched);
}

/* Also after a failure that came when nothing was left to do but wait for streams. */
static void end_launched(struct rd_progress_thread *progress)
{
	struct rd_gpu *gpu = progress->gpu;

	if (!atomic_load(&gpu->comm->failed) ||
		rd_flag_reached(&gpu->stream_flags->finished, progress->launched))
		return;
	rd_gpu_drain_failed(gpu);
	if (!rd_flag_reached(&gpu->stream_flags->finished, progress->launched))
		rd_flag_write(&gpu->stream_flags->finished, progress->launched);
}

/* With the lock held, and again on return. */
static void idle(struct rd_progress_thread *progress)
{
	if (!is_pending(progress)) {
		pthread_cond_wait(&progress->change, &progress->lock);
		return;
	}
	rd_condition_wait_ms(&progress->change, &progress->lock, CHECK_MS);
	pthread_mutex_unlock(&progress->lock);
	watch_launched(progress);
	end_launched(progress);
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
		if (job->capture) {
			run_capture(progress, job);
		} else {
			run_job(progress, job);
			rd_tasks_finish(job->tasks, job->count);
		}
		free(job);
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
	progress->launched = progress->seen = gpu->number;
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

static int queue_job(struct rd_progress_thread *progress, struct rd_task *tasks, int count,
	uint32_t number, struct capture *capture)
{
	struct rondo_comm *comm = progress->gpu->comm;
	struct job *job = calloc(1, sizeof(*job) + (size_t)count * sizeof(*tasks));

	if (!job) {
		rd_fail(RONDO_MEMORY, "no memory to queue %d calls", count);
		rd_comm_fail(comm, RONDO_MEMORY, comm->rank);
		/* The comm must see their turns end. */
		return rd_run(tasks, count);
	}
	job->number = number;
	job->capture = capture;
	job->count = count;
	memcpy(job->tasks, tasks, (size_t)count * sizeof(*tasks));
	pthread_mutex_lock(&progress->lock);
	*progress->last = job;
	progress->last = &job->next;
	pthread_cond_broadcast(&progress->change);
	pthread_mutex_unlock(&progress->lock);
	return 0;
}

int rd_progress_queue(
	struct rd_progress_thread *progress, struct rd_task *tasks, int count, uint32_t number)
{
	return queue_job(progress, tasks, count, number, NULL);
}

static int queue_capture(struct rd_progress_thread *progress, struct rd_task *tasks, int count,
	struct capture *capture)
{
	int err = queue_job(progress, tasks, count, 0, capture);

	if (err)
		return err;
	pthread_mutex_lock(&progress->lock);
	while (!capture->done)
		pthread_cond_wait(&progress->change, &progress->lock);
	pthread_mutex_unlock(&progress->lock);
	return capture->error ? rd_fail(capture->error, "%s", capture->reason) : 0;
}

int rd_progress_capture(
	struct rd_progress_thread *progress, struct rd_task *task, struct rd_work *work)
{
	return queue_capture(progress, task, 1, &(struct capture){ .work = work });
}

int rd_progress_capture_transfers(
	struct rd_progress_thread *progress, struct rd_task *tasks, int count, const char *from[])
{
	return queue_capture(progress, tasks, count, &(struct capture){ .from = from });
}

/* The progress thread watches meanwhile: a dead peer ends this too. */
void rd_progress_await(struct rd_progress_thread *progress, uint32_t number)
{
	const uint32_t *finished = &progress->gpu->stream_flags->finished;

	while (!rd_flag_reached(finished, number))
		rd_flag_sleep(
			finished, __atomic_load_n(finished, __ATOMIC_ACQUIRE), RD_WATCH_SLEEP_NS);
}

static void finish(struct rd_progress_thread *progress)
{
	struct rd_gpu *gpu = progress->gpu;

	pthread_mutex_lock(&progress->lock);
	while (progress->first || progress->busy)
		pthread_cond_wait(&progress->change, &progress->lock);
	pthread_mutex_unlock(&progress->lock);
	rd_progress_await(progress, progress->launched);
	/* The caller launched more on its own streams. */
	if (gpu->chain)
		gpu->ops->stream_synchronize(gpu->device, gpu->chain);
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
	rd_stage_destroy(progress->stage);
	pthread_mutex_destroy(&progress->lock);
	pthread_cond_destroy(&progress->change);
	free(progress);
}
