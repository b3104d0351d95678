#include "api/request_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"

/*
 * A worker that is woken at each start costs a system call, and often takes the core of the thread
 * that is about to wait. So after this many requests in a row that their waiters ran, starts wake
 * none: a worker looks at the queue now and then, and runs what it sees twice.
 */
#define LAZY_AFTER 4
/* Looks in vain after which the worker sleeps. */
#define LOOKS 50

struct rd_request_queue {
	struct rd_turn_queue turns; /* first: of the thread that runs them */
	struct rd_background work;
	struct rondo_comm *comm;
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct rondo_request *first, **last;
	bool runs; /* a thread runs requests */
	int calling; /* threads in a request's done() */
	bool posted; /* a worker looks at the queue */
	int awaited; /* requests in a row that a waiting thread ran */
	int looks; /* of the worker, in a row, while the queue was empty */
};

static struct rd_request_queue *queue_of(struct rd_background *work)
{
	return (struct rd_request_queue *)((char *)work - offsetof(struct rd_request_queue, work));
}

/* A done() that the calling thread is in, and the one that waits in it for a message. */
struct ending {
	const struct rondo_request *request;
	const struct ending *outer;
};

static _Thread_local const struct ending *ending;

static bool is_queued(const struct rondo_request *request)
{
	return atomic_load(&request->state) == RD_REQUEST_QUEUED;
}

/* Whether starts wake a worker only where none looks at the queue. A done() that returns soon has
   what is behind it run by its thread. */
static bool is_lazy(const struct rd_request_queue *queue)
{
	return queue->awaited >= LAZY_AFTER || queue->calling > 0;
}

static bool needs_wake(const struct rd_request_queue *queue)
{
	return queue->first && !queue->runs && (!queue->posted || !is_lazy(queue));
}

/* ---- Running -------------------------------------------------------------------------------- */

void rd_request_free(struct rondo_request *request)
{
	rd_tasks_finish(request->tasks, request->count);
	free(request->tagged);
	free(request->reason);
	free(request->tasks);
	free(request->runs);
	free(request);
}

static int copy_tasks(struct rondo_request *request)
{
	int err = 0, copied = 0;

	memcpy(request->runs, request->tasks, request->count * sizeof(*request->tasks));
	while (copied < request->count && !err) {
		err = rd_call_copy(&request->runs[copied].call, &request->tasks[copied].call);
		copied += !err;
	}
	if (err)
		rd_tasks_finish(request->runs, copied);
	return err;
}

void rd_request_call_done(struct rondo_request *request)
{
	const struct ending own = { .request = request, .outer = ending };

	if (request->error && request->reason)
		rd_fail(request->error, "%s", request->reason);
	ending = &own;
	request->done(request->argument, request->error);
	ending = own.outer;
}

bool rd_request_ends_here(const struct rondo_request *request)
{
	for (const struct ending *at = ending; at; at = at->outer)
		if (at->request == request || (at->request->tagged && request->tagged &&
						      at->request->comm == request->comm))
			return true;
	return false;
}

static void run_tasks(struct rondo_request *request)
{
	int err = rd_run(request->runs, request->count);

	for (int i = 0; i < request->count && !err; i++)
		request->tasks[i].exec = request->runs[i].exec;
	rd_tasks_finish(request->runs, request->count);
	request->error = err;
	if (err)
		request->reason = strdup(rondo_last_error());
}

static void post(struct rd_request_queue *queue);

/* Others may run requests meanwhile: done() may wait for them. */
static void call_done(struct rd_request_queue *queue, struct rondo_request *request)
{
	bool wake;

	pthread_mutex_lock(&queue->lock);
	queue->runs = false;
	queue->calling++;
	wake = needs_wake(queue);
	pthread_mutex_unlock(&queue->lock);
	if (wake)
		post(queue);
	rd_request_call_done(request);
}

/* Under the lock, which it gives up meanwhile: runs the first request. */
static void run_first(struct rd_request_queue *queue)
{
	struct rondo_request *request = queue->first;
	bool called = request->done;

	queue->first = request->next;
	if (!queue->first)
		queue->last = &queue->first;
	queue->runs = true;
	atomic_compare_exchange_strong(
		&request->state, &(int){ RD_REQUEST_QUEUED }, RD_REQUEST_RUNS);
	pthread_mutex_unlock(&queue->lock);
	run_tasks(request);
	if (called)
		call_done(queue, request);
	pthread_mutex_lock(&queue->lock);
	if (called)
		queue->calling--;
	else
		queue->runs = false;
	rd_request_end(request);
	pthread_cond_broadcast(&queue->change);
}

/* ---- The worker's part ---------------------------------------------------------------------- */

static enum rd_background_state look(struct rd_background *work)
{
	struct rd_request_queue *queue = queue_of(work);
	enum rd_background_state state = RD_BACKGROUND_LATER;

	pthread_mutex_lock(&queue->lock);
	if (queue->first && !queue->runs) {
		if (!is_lazy(queue) || queue->first->seen)
			state = RD_BACKGROUND_NOW;
		queue->first->seen = true;
		queue->looks = 0;
	} else if (!is_lazy(queue) || ++queue->looks > LOOKS) {
		state = RD_BACKGROUND_NONE;
	}
	queue->posted = state == RD_BACKGROUND_LATER;
	pthread_mutex_unlock(&queue->lock);
	return state;
}

static void run_queue(struct rd_request_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	while (queue->first && !queue->runs) {
		queue->awaited = 0;
		run_first(queue);
	}
	pthread_mutex_unlock(&queue->lock);
}

static void work_off(struct rd_background *work)
{
	struct rd_request_queue *queue = queue_of(work);

	rd_log_rank(queue->comm->rank);
	rd_turn_set_queue(&queue->turns);
	run_queue(queue);
	rd_turn_set_queue(NULL);
}

/* Without a lock. Where there is no thread for it, the caller runs what is queued. */
static void post(struct rd_request_queue *queue)
{
	if (rd_background_post(&queue->work))
		run_queue(queue);
}

/* ---- The program's part --------------------------------------------------------------------- */

/* A done() that makes a call behind queued ones waits for its turn, until timeout_ms. */
static bool find_none(const struct rd_turn_queue *queue, const struct rd_task *task,
	const char **name, uint32_t *number)
{
	(void)queue, (void)task, (void)name, (void)number;
	return false;
}

int rd_request_queue_create(struct rondo_comm *comm)
{
	struct rd_request_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return rd_fail(RONDO_MEMORY, "no memory for requests");
	queue->turns.find = find_none;
	/* Threads may wait by means of their own, such as a future that done() completes. */
	atomic_init(&queue->turns.waiters, 1);
	queue->comm = comm;
	queue->last = &queue->first;
	pthread_mutex_init(&queue->lock, NULL);
	rd_condition_init(&queue->change);
	rd_background_init(&queue->work, look, work_off);
	comm->requests = queue;
	return 0;
}

/* Under the lock, and in the comm: numbers the calls, and puts them behind the others. */
static void append(struct rd_request_queue *queue, struct rondo_request *request)
{
	rd_tasks_issue(request->runs, request->count);
	for (int i = 0; i < request->count; i++)
		request->runs[i].queued = true;
	free(request->reason);
	request->reason = NULL;
	request->error = 0;
	request->seen = false;
	request->queue = queue;
	request->next = NULL;
	atomic_store(&request->state, RD_REQUEST_QUEUED);
	*queue->last = request;
	queue->last = &request->next;
}

/* The lock makes starts wait for each other: the end of one request may start another before the
   start of a third has returned. */
int rd_request_queue_add(struct rondo_request *request)
{
	struct rondo_comm *comm = request->comm;
	struct rd_request_queue *queue = comm->requests;
	int err = copy_tasks(request);
	bool enters, wake;

	if (err)
		return err;
	pthread_mutex_lock(&queue->lock);
	enters = rd_comm_enter(comm);
	if (enters) {
		append(queue, request);
		rd_comm_exit(comm);
	}
	wake = needs_wake(queue);
	pthread_mutex_unlock(&queue->lock);
	if (!enters) {
		rd_tasks_finish(request->runs, request->count);
		return rd_comm_refuse_second(comm, "rondo_request_start");
	}
	if (wake)
		post(queue);
	return 0;
}

/* Whether the waiting thread may run calls that it cannot leave: it waits as long as they may. A
   done() that ran in another would have to return before that. */
static bool waits_for_calls(const struct rondo_request *request, int timeout_ms)
{
	if (ending)
		return false;
	return timeout_ms < 0 || timeout_ms >= request->runs[0].timeout_ms;
}

/* Under the lock: whether a thread that waits may run the first request. A worker alone looks
   whether a done() takes long. */
static bool may_run_first(const struct rd_request_queue *queue)
{
	return queue->first && !queue->runs && queue->calling == 0;
}

/* Under the lock: waits for another thread, until the time. */
static void wait_for_change(struct rd_request_queue *queue, int64_t until_ns)
{
	int64_t left_us = (until_ns - rd_clock_ns()) / 1000;

	if (until_ns == INT64_MAX)
		pthread_cond_wait(&queue->change, &queue->lock);
	else if (left_us > 0)
		rd_condition_wait_us(&queue->change, &queue->lock, left_us);
}

bool rd_request_queue_wait(struct rondo_request *request, int timeout_ms)
{
	struct rd_request_queue *queue = request->queue;
	bool may_run = waits_for_calls(request, timeout_ms), left, done;
	int64_t until_ns =
		timeout_ms < 0 ? INT64_MAX : rd_clock_ns() + timeout_ms * INT64_C(1000000);

	if (!may_run)
		rd_request_queue_poll(request);
	pthread_mutex_lock(&queue->lock);
	while (atomic_load(&request->state) != RD_REQUEST_DONE) {
		if (may_run && may_run_first(queue) && is_queued(request)) {
			queue->awaited += queue->awaited < LAZY_AFTER;
			run_first(queue);
		} else if (rd_clock_ns() < until_ns) {
			wait_for_change(queue, until_ns);
		} else {
			break;
		}
	}
	done = atomic_load(&request->state) == RD_REQUEST_DONE;
	/* Those behind it: a worker that looked meanwhile has seen that a thread ran. */
	left = needs_wake(queue);
	pthread_mutex_unlock(&queue->lock);
	if (left)
		post(queue);
	return done;
}

void rd_request_queue_poll(struct rondo_request *request)
{
	struct rd_request_queue *queue = request->queue;
	bool wake = false;

	pthread_mutex_lock(&queue->lock);
	if (is_queued(request) && !request->seen && (queue->calling == 0 || ending)) {
		queue->awaited = 0;
		request->seen = queue->first->seen = true;
		wake = !queue->runs;
	}
	pthread_mutex_unlock(&queue->lock);
	if (wake)
		post(queue);
}

void rd_request_queue_drain(struct rondo_comm *comm)
{
	struct rd_request_queue *queue = comm->requests;

	if (!queue)
		return;
	pthread_mutex_lock(&queue->lock);
	while (queue->first || queue->runs || queue->calling > 0) {
		if (may_run_first(queue))
			run_first(queue);
		else
			wait_for_change(queue, INT64_MAX);
	}
	pthread_mutex_unlock(&queue->lock);
}

void rd_request_queue_finish(struct rondo_comm *comm)
{
	struct rd_request_queue *queue = comm->requests;

	if (!queue)
		return;
	rd_background_finish(&queue->work);
	pthread_mutex_destroy(&queue->lock);
	pthread_cond_destroy(&queue->change);
	free(queue);
	comm->requests = NULL;
}
