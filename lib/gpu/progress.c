#include "gpu/progress.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "gpu/compile_direct.h"
#include "gpu/staging.h"
#include "base/thread.h"
#include "gpu/transfers.h"
#include "base/futex.h"

/* How often the progress thread looks whether the comm still stands, while streams are under way. */
#define LOOK_MS 10
/* A flag that a device writes wakes nobody. */
#define WORD_NS 50000
/* Rounds of yielding before it sleeps for a flag. */
#define YIELDS 100
/* What is let go is given so long to end. */
#define LETTING_GO_MS 10000
/* A fused kernel waits twice: to enter, and to leave. It has so long to begin. */
#define KERNEL_WAITS 2
#define KERNEL_BEGINS_MS 10000
/* Added to flags to let go of whoever waits for them: beyond any number in use. */
#define BEYOND (1u << 30)

/* What the caller waits for, of a call that is captured. */
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
	int64_t since_ms; /* 0: not looked yet */
	int reported_ms; /* of that wait, as slow */
	uint32_t slow_call; /* the call of the latest kernel that was reported as slow */
	uint32_t calls; /* that were told to peers */
	bool transfers[RD_READY]; /* by number: what the job is */
	struct rd_stage *stage; /* NULL: nothing has been staged yet */
	/* Of the present call. Each is read once: a peer may write to its host flags when it likes, and
	   what has been checked must be what is used. */
	struct rd_announcement announcements[RD_WORK_RANKS];
};

/* ---- Watching ------------------------------------------------------------------------------ */

/* Before our stream goes on, and tells peers that we have done our part. */
static void warn_peers(struct rd_gpu *gpu)
{
	uint32_t us = (uint32_t)gpu->comm->rank + 1;

	for (int peer = 0; peer < gpu->comm->size && peer < RD_WORK_RANKS; peer++)
		if (peer != gpu->comm->rank && gpu->peer_flags[peer])
			__atomic_store_n(&gpu->peer_flags[peer]->abort_flag.warned, us, __ATOMIC_RELEASE);
}

/* Everything that waits for this rank's flags ends. A peer that is late may write a smaller number
   after us: so this is said again until all have gone. */
static void let_go(struct rd_gpu *gpu)
{
	struct rd_host_flags *host_flags = gpu->host_flags;
	uint32_t beyond = gpu->progress->calls + BEYOND;

	__atomic_store_n(&host_flags->abort_flag.stop, 1, __ATOMIC_RELEASE);
	warn_peers(gpu);
	for (int peer = 0; peer < gpu->comm->size && peer < RD_WORK_RANKS; peer++) {
		rd_flag_write(&host_flags->entered[peer], beyond);
		rd_flag_write(&host_flags->left[peer], beyond);
		rd_flag_write(&host_flags->taken[peer], gpu->sent[peer] + BEYOND);
	}
}

/* A rank as the host flags names it, which peers can write; this rank where there is none of that number.
 */
static int rank_named(const struct rd_gpu *gpu, uint32_t number)
{
	const struct rondo_comm *comm = gpu->comm;

	return number < (uint32_t)comm->size ? (int)number : comm->rank;
}

/* A kernel has given up. */
static void report_abort(struct rd_gpu *gpu, uint32_t error)
{
	struct rondo_comm *comm = gpu->comm;
	int peer = rank_named(gpu, gpu->host_flags->abort_flag.peer);

	if (error == RD_ABORT_MISMATCH) {
		rd_fail(RONDO_MISMATCH, "rank %d made another call on its device than rank %d",
			peer, comm->rank);
		rd_comm_fail(comm, RONDO_MISMATCH, peer);
		return;
	}
	if (error == RD_ABORT_TRANSFER) {
		rd_transfers_differ(gpu, peer);
		return;
	}
	rd_fail(RONDO_TIMEOUT, "rank %d's kernel waited %d ms for rank %d", comm->rank,
		comm->settings.timeout_ms, peer);
	rd_comm_fail(comm, RONDO_TIMEOUT, peer);
}

int rd_progress_watch(struct rd_gpu *gpu)
{
	struct rondo_comm *comm = gpu->comm;
	uint32_t error = __atomic_load_n(&gpu->host_flags->abort_flag.error, __ATOMIC_ACQUIRE);
	uint32_t warned = __atomic_load_n(&gpu->host_flags->abort_flag.warned, __ATOMIC_ACQUIRE);

	if (error && !atomic_load(&comm->failed))
		report_abort(gpu, error);
	if (warned && !atomic_load(&comm->failed)) {
		int peer = rank_named(gpu, warned - 1);

		rd_fail(RONDO_BROKEN, "rank %d gave up a call on devices", peer);
		rd_comm_fail(comm, RONDO_BROKEN, peer);
	}
	if (!atomic_load(&comm->failed))
		return 0;

	int err = rd_comm_failure(comm);

	let_go(gpu);
	rd_async_error_set(gpu->async_error, err);
	return err;
}

static int report_silence(struct rd_gpu *gpu, int64_t waited_ms, int peer, const char *where)
{
	struct rondo_comm *comm = gpu->comm;

	rd_fail(RONDO_TIMEOUT, "rank %d waited %lld ms for rank %d %s", comm->rank,
		(long long)waited_ms, peer, where);
	rd_comm_fail(comm, RONDO_TIMEOUT, peer);
	return rd_progress_watch(gpu);
}

/* Waits for a flag; peer: whose silence has a bound, -1: nobody's. */
static int await(struct rd_gpu *gpu, const uint32_t *flag, uint32_t value, int peer)
{
	int64_t began = rd_clock_ns();
	int reported_ms = 0;

	for (int round = 0; !rd_flag_reached(flag, value); round++) {
		uint32_t seen = __atomic_load_n(flag, __ATOMIC_ACQUIRE);
		int64_t waited_ms = (rd_clock_ns() - began) / 1000000;
		int err = rd_progress_watch(gpu);

		if (err)
			return err;
		if (peer >= 0)
			rd_comm_slow(gpu->comm, &reported_ms, waited_ms, peer,
				"to join a call on devices");
		if (peer >= 0 && waited_ms > gpu->comm->settings.timeout_ms)
			return report_silence(gpu, waited_ms, peer, "to join a call on devices");
		if (round < YIELDS)
			sched_yield();
		else if (!rd_flag_reached(flag, value))
			rd_flag_sleep(flag, seen, WORD_NS);
	}
	return 0;
}

/* The peer that is behind in this job, or in the calls told so far; this rank itself: none is. */
static int missing_peer(const struct rd_gpu *gpu, uint32_t job)
{
	const struct rd_host_flags *host_flags = gpu->host_flags;

	if (gpu->progress->transfers[job % RD_READY])
		return rd_transfers_owed(gpu);
	for (int peer = 0; peer < gpu->comm->size && peer < RD_WORK_RANKS; peer++)
		if (peer != gpu->comm->rank && gpu->kernel == RD_KERNEL_STEPPED &&
			!rd_flag_reached(&host_flags->left[peer], gpu->progress->calls))
			return peer;
	return gpu->comm->rank;
}

/* How long what is launched may take with nothing finished. A fused kernel knows for whom it waits
   too long, and says so; the host does not, and so speaks only after it. Transfers' copies wait for
   nobody. */
static int64_t patience_ms(const struct rd_gpu *gpu, uint32_t job)
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
		report_silence(gpu, waited_ms, peer, "in a call on devices");
		return;
	}
	rd_fail(RONDO_TIMEOUT, "rank %d's own device has not finished a call for %lld ms",
		comm->rank, (long long)waited_ms);
	rd_comm_fail(comm, RONDO_TIMEOUT, comm->rank);
	rd_progress_watch(gpu);
}

static void report_slow(struct rd_progress_thread *progress, uint32_t job, int64_t waited_ms)
{
	struct rondo_comm *comm = progress->gpu->comm;
	int peer = missing_peer(progress->gpu, job);

	rd_comm_slow(comm, &progress->reported_ms, waited_ms, peer == comm->rank ? -1 : peer,
		"in a call on devices");
}

/* A kernel that the caller launched, which nobody else here watches. It says so while it waits. */
static void report_slow_kernel(struct rd_progress_thread *progress)
{
	struct rd_gpu *gpu = progress->gpu;
	uint32_t slow = __atomic_exchange_n(&gpu->host_flags->abort_flag.slow, 0, __ATOMIC_RELAXED);
	uint32_t call = atomic_load(&gpu->comm->activity.calls);
	int reported_ms = 0;

	if (!slow || call == progress->slow_call)
		return;
	progress->slow_call = call;
	rd_comm_slow(gpu->comm, &reported_ms, RD_SLOW_MS, rank_named(gpu, slow - 1),
		"in a call on devices");
}

/* While nothing else is to be done: are the streams that wait still being served? */
static void watch_launched(struct rd_progress_thread *progress)
{
	struct rd_gpu *gpu = progress->gpu;
	uint32_t finished = __atomic_load_n(&gpu->stream_flags->finished, __ATOMIC_ACQUIRE);
	int64_t now_ms = rd_clock_ns() / 1000000;

	if (rd_progress_watch(gpu))
		return;
	report_slow_kernel(progress);
	/* Its own stream's earlier work may take as long as it likes. */
	if (progress->since_ms == 0 || finished == progress->launched || finished != progress->seen ||
		!rd_flag_reached(rd_ready(gpu->stream_flags, finished + 1), finished + 1)) {
		progress->seen = finished;
		progress->since_ms = now_ms;
		progress->reported_ms = 0;
	} else if (now_ms - progress->since_ms > patience_ms(gpu, finished + 1)) {
		report_unfinished(gpu, finished + 1, now_ms - progress->since_ms);
	} else {
		report_slow(progress, finished + 1, now_ms - progress->since_ms);
	}
}

int rd_progress_drain(struct rd_gpu *gpu)
{
	uint32_t marker = ++gpu->marker;
	int err =
		gpu->ops->write_flag(gpu->device, gpu->stream, &gpu->host_flags->marker, marker);

	return err ? err : await(gpu, &gpu->host_flags->marker, marker, -1);
}

/* After a failure: until the gpu's stream has come to its end. */
static void drain_failed(struct rd_gpu *gpu)
{
	uint32_t marker = ++gpu->marker;
	int64_t until = rd_clock_ns() + LETTING_GO_MS * INT64_C(1000000);

	if (gpu->ops->write_flag(gpu->device, gpu->stream, &gpu->host_flags->marker, marker))
		return;
	while (!rd_flag_reached(&gpu->host_flags->marker, marker) && rd_clock_ns() < until) {
		let_go(gpu);
		/* What was handed over waits on its own stream for these. */
		rd_flag_sleep(&gpu->host_flags->marker, marker - 1, WORD_NS);
	}
}

/* ---- Direct -------------------------------------------------------------------------------- */

static int mismatch(struct rd_gpu *gpu, int peer, const struct rd_signature *theirs,
	const struct rd_signature *ours)
{
	char there[128], here[128];

	rd_signature_print(theirs, there, sizeof(there));
	rd_signature_print(ours, here, sizeof(here));
	rd_fail(RONDO_MISMATCH, "rank %d is in %s, rank %d in %s", peer, there, gpu->comm->rank,
		here);
	return rd_comm_fail(gpu->comm, RONDO_MISMATCH, peer);
}

static struct rd_announcement *post_of(struct rd_gpu *gpu, int rank, uint32_t number)
{
	return &gpu->peer_flags[rank]->announcements[number % 2];
}

static bool is_pairwise(const struct rd_call *call)
{
	return call->terms && call->terms->in && call->terms->pairwise;
}

/* What the ranks compare. */
static struct rd_signature signature_of(const struct rd_call *call, bool captured)
{
	struct rd_signature signature = rd_signature_of(call);

	if (captured)
		signature.form |= RD_FORM_CAPTURED;
	return signature;
}

static void write_announcement(struct rd_gpu *gpu, const struct rd_call *call, bool captured,
	const struct rd_work *work, uint32_t number)
{
	int rank = gpu->comm->rank;
	struct rd_announcement *announcement = post_of(gpu, rank, number);

	size_t in_size = rd_gpu_in_size(call, rank), out_size = rd_gpu_out_size(call, rank);

	announcement->signature = signature_of(call, captured);
	announcement->factor = work->factors[rank];
	/* A small call leaves peers' buffers alone. */
	if (!work->small) {
		rd_gpu_describe(gpu, call->in, in_size, &announcement->in);
		rd_gpu_describe(gpu, call->out, out_size, &announcement->out);
	}
	announcement->reachable =
		work->small || ((in_size == 0 || announcement->in.id) && (out_size == 0 || announcement->out.id));
	for (int peer = 0; peer < work->size; peer++) {
		announcement->gives[peer].in_at = work->in_for[peer];
		announcement->gives[peer].out_at = work->out_for[peer];
		announcement->gives[peer].size =
			is_pairwise(call) ? rd_work_pair_size(call, rank, peer) : 0;
	}
	rd_flag_write(&announcement->number, number);
}

static int check_length(
	struct rd_gpu *gpu, const struct rd_call *call, int peer, const struct rd_announcement *announcement)
{
	int rank = gpu->comm->rank;
	size_t wanted = rd_work_pair_size(call, peer, rank);

	if (announcement->gives[rank].size == wanted)
		return 0;
	rd_fail(RONDO_MISMATCH, "%s: rank %d has %llu bytes for rank %d, which expects %zu",
		rd_collective_name(call->problem.collective), peer,
		(unsigned long long)announcement->gives[rank].size, rank, wanted);
	return rd_comm_fail(gpu->comm, RONDO_MISMATCH, peer);
}

/* Until all have posted; they must have made the same call. */
static int read_announcements(
	struct rd_progress_thread *progress, const struct rd_call *call, bool captured, uint32_t number)
{
	struct rd_gpu *gpu = progress->gpu;
	struct rd_signature ours = signature_of(call, captured);

	for (int peer = 0; peer < gpu->comm->size; peer++) {
		const struct rd_announcement *posted = post_of(gpu, peer, number);
		struct rd_announcement *announcement = &progress->announcements[peer];
		int err = await(gpu, &posted->number, number, peer);

		if (err)
			return err;
		*announcement = *posted;
		if (memcmp(&announcement->signature, &ours, sizeof(ours)) != 0)
			return mismatch(gpu, peer, &announcement->signature, &ours);
		if (is_pairwise(call) && peer != gpu->comm->rank)
			err = check_length(gpu, call, peer, announcement);
		if (err)
			return err;
	}
	return 0;
}

/* All ranks see the same announcements, and decide alike. */
static bool can_reach_all(const struct rd_progress_thread *progress)
{
	for (int rank = 0; rank < progress->gpu->comm->size; rank++)
		if (!progress->announcements[rank].reachable)
			return false;
	return true;
}

/* What of a peer's buffer is for us; NULL with the reason. */
static char *reach(struct rd_gpu *gpu, int peer, const struct rd_buffer_location *location, uint64_t at,
	size_t size, bool keep)
{
	char *base = at > SIZE_MAX - size
			     ? NULL
			     : rd_gpu_reach(gpu, peer, location, (size_t)at + size, keep);

	if (at > SIZE_MAX - size)
		rd_fail(RONDO_PROTOCOL, "rank %d says its buffer is longer than memory", peer);
	return base ? base + at : NULL;
}

static int fill_in(
	struct rd_progress_thread *progress, const struct rd_call *call, bool captured, struct rd_work *work)
{
	struct rd_gpu *gpu = progress->gpu;

	for (int rank = 0; rank < work->size; rank++) {
		const struct rd_announcement *announcement = &progress->announcements[rank];
		size_t in_size = rd_gpu_in_size(call, rank);
		size_t out_size = rd_gpu_out_size(call, rank);

		if (rank == work->rank || work->small)
			continue;
		work->factors[rank] = announcement->factor;
		if (in_size > 0) {
			work->in[rank] = reach(gpu, rank, &announcement->in,
				announcement->gives[work->rank].in_at, in_size, captured);
			if (!work->in[rank])
				return RONDO_SYSTEM;
		}
		if (out_size > 0) {
			work->out[rank] = reach(gpu, rank, &announcement->out,
				announcement->gives[work->rank].out_at, out_size, captured);
			if (!work->out[rank])
				return RONDO_SYSTEM;
		}
	}
	work->in[work->rank] = call->in;
	work->out[work->rank] = call->out;
	return 0;
}

/* A barrier on the gpu's stream: flags in the host flags of all, then all words of our own. */
static int queue_barrier(struct rd_gpu *gpu, size_t flag_at, uint32_t number)
{
	const struct rd_device_ops *ops = gpu->ops;
	int rank = gpu->comm->rank, size = gpu->comm->size, err = 0;

	for (int peer = 0; peer < size && !err; peer++)
		if (peer != rank)
			err = ops->write_flag(gpu->device, gpu->stream,
				(uint32_t *)((char *)gpu->peer_flags[peer] + flag_at) + rank, number);
	for (int peer = 0; peer < size && !err; peer++)
		if (peer != rank)
			err = ops->wait_flag(gpu->device, gpu->stream,
				(uint32_t *)((char *)gpu->host_flags + flag_at) + peer, number);
	return err;
}

static int queue_work(struct rd_gpu *gpu, struct rd_work *work, uint32_t number)
{
	int err = 0;

	if (!work->fused)
		err = queue_barrier(gpu, offsetof(struct rd_host_flags, entered), number);
	if (!err)
		err = gpu->ops->run(gpu->device, gpu->stream, work);
	if (!err && !work->fused)
		err = queue_barrier(gpu, offsetof(struct rd_host_flags, left), number);
	return err;
}

/* All ranks tell each other where their buffers lie. *direct: false when some cannot be reached. */
static int exchange(struct rd_progress_thread *progress, const struct rd_call *call, bool captured,
	struct rd_work *work, bool *direct)
{
	struct rd_gpu *gpu = progress->gpu;
	uint32_t number = ++progress->calls;
	int err;

	if (gpu->kernel == RD_KERNEL_FUSED)
		rd_gpu_fuse(gpu, call, work);
	write_announcement(gpu, call, captured, work, number);
	err = read_announcements(progress, call, captured, number);
	if (err)
		return err;
	*direct = can_reach_all(progress);
	if (!*direct)
		return 0;
	return fill_in(progress, call, captured, work);
}

/* ---- Jobs ---------------------------------------------------------------------------------- */

static int run_collective(struct rd_progress_thread *progress, struct rd_task *task)
{
	struct rd_work work;
	bool direct = rd_gpu_work(progress->gpu, &task->call, &work);
	int err = 0;

	if (direct) {
		rd_run_begin(task);
		err = rd_progress_watch(progress->gpu);
		if (!err)
			err = exchange(progress, &task->call, false, &work, &direct);
		if (!err && direct)
			err = queue_work(progress->gpu, &work, progress->calls);
		if (err && !atomic_load(&progress->gpu->comm->failed))
			rd_comm_fail(progress->gpu->comm, err, progress->gpu->comm->rank);
		if (err || direct)
			rd_run_end(task);
	}
	if (!err && !direct)
		err = rd_stage_run(&progress->stage, progress->gpu, task);
	return err;
}

/* Replays of the graph need no host: what the kernel must know goes into it now. */
static int prepare_capture(struct rd_progress_thread *progress, struct rd_task *task, struct rd_work *work)
{
	struct rd_gpu *gpu = progress->gpu;
	bool direct = true;
	int err;

	rd_run_begin(task);
	err = rd_progress_watch(gpu);
	if (!err)
		err = exchange(progress, &task->call, true, work, &direct);
	if (err && !atomic_load(&gpu->comm->failed))
		rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	rd_run_end(task);
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
	/* Nobody's silence: the caller's stream may have much to do before. */
	int err = await(gpu, rd_ready(gpu->stream_flags, job->number), job->number, -1);

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
	/* The gpu's stream ends, then the caller's goes on; what it finds is garbage, and it will
	   be told so when it is synchronised. */
	if (!atomic_load(&gpu->comm->failed))
		rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	rd_progress_watch(gpu);
	drain_failed(gpu);
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
	drain_failed(gpu);
	if (!rd_flag_reached(&gpu->stream_flags->finished, progress->launched))
		rd_flag_write(&gpu->stream_flags->finished, progress->launched);
}

static void wait_a_moment(struct rd_progress_thread *progress)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += LOOK_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&progress->change, &progress->lock, &until);
}

/* With the lock held, and again on return. */
static void idle(struct rd_progress_thread *progress)
{
	if (!is_pending(progress)) {
		pthread_cond_wait(&progress->change, &progress->lock);
		return;
	}
	wait_a_moment(progress);
	pthread_mutex_unlock(&progress->lock);
	watch_launched(progress);
	end_launched(progress);
	pthread_mutex_lock(&progress->lock);
}

static void *work_off(void *argument)
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
			rd_run_forget(job->tasks, job->count);
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

	int err = rd_thread_start(&progress->thread, 0, work_off, progress);

	if (!err)
		return 0;
	gpu->progress = NULL;
	free(progress);
	return rd_fail(RONDO_SYSTEM, "cannot start a comm's thread: %s", strerror(err));
}

static int queue_job(struct rd_progress_thread *progress, struct rd_task *tasks, int count, uint32_t number,
	struct capture *capture)
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

int rd_progress_queue(struct rd_progress_thread *progress, struct rd_task *tasks, int count, uint32_t number)
{
	return queue_job(progress, tasks, count, number, NULL);
}

static int queue_capture(
	struct rd_progress_thread *progress, struct rd_task *tasks, int count, struct capture *capture)
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

int rd_progress_capture(struct rd_progress_thread *progress, struct rd_task *task, struct rd_work *work)
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
		rd_flag_sleep(finished, __atomic_load_n(finished, __ATOMIC_ACQUIRE), WORD_NS);
}

static void finish(struct rd_progress_thread *progress)
{
	struct rd_gpu *gpu = progress->gpu;

	pthread_mutex_lock(&progress->lock);
	while (progress->first || progress->busy)
		pthread_cond_wait(&progress->change, &progress->lock);
	pthread_mutex_unlock(&progress->lock);
	rd_progress_await(progress, progress->launched);
	/* What the caller launched on its own streams. */
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
