#include "api/stream.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/submit.h"
#include "base/error.h"
#include "api/group.h"
#include "device/device_stream.h"
#include "base/log.h"
#include "base/thread.h"

/* One piece of queued work: tasks, or a call of the user's function. */
struct item {
	struct item *next;
	void (*call)(void *argument);
	void *argument;
	int count;
	struct rd_task tasks[];
};

struct rondo_stream {
	struct rd_turn_queue queue; /* first: it is cast to the stream */
	unsigned forks; /* rd_process.forks in the process that made it */
	struct rd_device_stream *device_stream; /* a device's stream: the rest is not used */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct item *first, **last;
	uint64_t queued, done;
	bool closing;
	bool detached; /* set in its own thread, which frees it at its end */
	int error; /* the first failure, and its reason */
	char reason[RD_REASON_SIZE];
};

static int check_process(const struct rondo_stream *stream, const char *function)
{
	return rd_is_inherited(stream->forks) ? rd_refuse_inherited(function, "stream") : 0;
}

/* After a failure the call's input may be garbage, which its peers would take for a result. */
static void skip_calls(const struct rondo_stream *stream, const struct item *item)
{
	for (int i = 0; i < item->count; i++) {
		struct rondo_comm *comm = item->tasks[i].comm;

		if (atomic_load(&comm->failed))
			continue;
		rd_fail(RONDO_REVOKED, "rank %d skipped a call behind a failure on its stream: %s",
			comm->rank, stream->reason);
		rd_comm_fail(comm, RONDO_REVOKED, comm->rank);
	}
}

static void run_item(struct rondo_stream *stream, struct item *item)
{
	int err = 0;

	if (item->call) {
		item->call(item->argument);
		return;
	}
	rd_log_rank(item->tasks[0].comm->rank);
	/* This thread alone writes it. */
	if (stream->error)
		skip_calls(stream, item);
	/* Also after a failure: the comm must see its turns end. A failed comm returns at once. */
	err = rd_run(item->tasks, item->count);
	rd_tasks_finish(item->tasks, item->count);
	if (!err)
		return;
	pthread_mutex_lock(&stream->lock);
	if (!stream->error) {
		stream->error = err;
		snprintf(stream->reason, sizeof(stream->reason), "%s", rondo_last_error());
	}
	pthread_mutex_unlock(&stream->lock);
}

static bool find_earlier(const struct rd_turn_queue *queue, const struct rd_task *task,
	const char **name, uint32_t *number)
{
	struct rondo_stream *stream = (struct rondo_stream *)queue;
	bool found = false;

	pthread_mutex_lock(&stream->lock);
	for (const struct item *item = stream->first; item && !found; item = item->next) {
		for (int i = 0; i < item->count && !found; i++) {
			const struct rd_task *queued = &item->tasks[i];

			found = queued->comm == task->comm && queued->turn < task->turn;
			*name = rd_collective_name(queued->call.problem.collective);
			*number = queued->call.number;
		}
	}
	pthread_mutex_unlock(&stream->lock);
	return found;
}

static void free_stream(struct rondo_stream *stream)
{
	pthread_mutex_destroy(&stream->lock);
	pthread_cond_destroy(&stream->change);
	free(stream);
}

static void *work(void *argument)
{
	struct rondo_stream *stream = argument;

	rd_turn_set_queue(&stream->queue);
	pthread_mutex_lock(&stream->lock);
	for (;;) {
		struct item *item = stream->first;

		if (!item) {
			if (stream->closing)
				break;
			pthread_cond_wait(&stream->change, &stream->lock);
			continue;
		}
		stream->first = item->next;
		if (!stream->first)
			stream->last = &stream->first;
		pthread_mutex_unlock(&stream->lock);
		run_item(stream, item);
		free(item);
		pthread_mutex_lock(&stream->lock);
		stream->done++;
		pthread_cond_broadcast(&stream->change);
	}
	pthread_mutex_unlock(&stream->lock);
	if (stream->detached)
		free_stream(stream);
	return NULL;
}

int rondo_stream_create(rondo_stream **stream)
{
	if (!stream)
		return rd_fail(RONDO_INVALID, "rondo_stream_create: stream is NULL");
	*stream = NULL;
	if (rd_forks_watch())
		return RONDO_MEMORY;

	struct rondo_stream *made = calloc(1, sizeof(*made));

	if (!made)
		return rd_fail(RONDO_MEMORY, "no memory for a stream");
	made->forks = rd_process.forks;
	made->queue.find = find_earlier;
	made->last = &made->first;
	pthread_mutex_init(&made->lock, NULL);
	pthread_cond_init(&made->change, NULL);

	int err = rd_thread_start(&made->thread, 0, work, made);

	if (err) {
		free(made);
		return rd_fail(RONDO_SYSTEM, "cannot start a stream's thread: %s", strerror(err));
	}
	*stream = made;
	return 0;
}

static int create_on_device(
	rondo_stream **stream, const char *name, int device, bool owned, void *handle)
{
	if (!stream)
		return rd_fail(RONDO_INVALID, "%s: stream is NULL", name);
	*stream = NULL;
	if (rd_forks_watch())
		return RONDO_MEMORY;

	struct rondo_stream *made = calloc(1, sizeof(*made));

	if (!made)
		return rd_fail(RONDO_MEMORY, "no memory for a stream");
	made->forks = rd_process.forks;

	int err = rd_device_stream_create(&made->device_stream, device, owned, handle);

	if (err)
		free(made);
	else
		*stream = made;
	return err;
}

int rondo_stream_create_on(rondo_stream **stream, int device)
{
	return create_on_device(stream, "rondo_stream_create_on", device, true, NULL);
}

int rondo_stream_wrap(rondo_stream **stream, void *cuda_stream, int device)
{
	return create_on_device(stream, "rondo_stream_wrap", device, false, cuda_stream);
}

struct rd_device_stream *rd_stream_device_stream(const struct rondo_stream *stream)
{
	return stream ? stream->device_stream : NULL;
}

/* Whether the caller is a function that the stream calls. */
static bool is_own_thread(const struct rondo_stream *stream)
{
	return pthread_equal(pthread_self(), stream->thread);
}

void rondo_stream_destroy(rondo_stream *stream)
{
	if (!stream)
		return;
	/* A forked child has neither the thread nor the device. The lock may be locked, and the
	   queue half changed. */
	if (rd_is_inherited(stream->forks)) {
		free(stream);
		return;
	}
	rd_group_lose_stream(stream);
	if (stream->device_stream) {
		rd_device_stream_destroy(stream->device_stream);
		free(stream);
		return;
	}
	pthread_mutex_lock(&stream->lock);
	stream->closing = true;
	pthread_cond_broadcast(&stream->change);
	pthread_mutex_unlock(&stream->lock);
	/* It cannot wait for itself. */
	if (is_own_thread(stream)) {
		stream->detached = true;
		pthread_detach(stream->thread);
		return;
	}
	pthread_join(stream->thread, NULL);
	free_stream(stream);
}

int rondo_stream_synchronize(rondo_stream *stream)
{
	if (!stream)
		return rd_fail(RONDO_INVALID, "rondo_stream_synchronize: stream is NULL");
	if (check_process(stream, "rondo_stream_synchronize"))
		return RONDO_INVALID;
	if (stream->device_stream)
		return rd_device_stream_synchronize(stream->device_stream);
	if (is_own_thread(stream))
		return rd_fail(RONDO_INVALID,
			"rondo_stream_synchronize: a function of the stream would wait for itself");
	pthread_mutex_lock(&stream->lock);

	uint64_t until = stream->queued;

	atomic_fetch_add(&stream->queue.waiters, 1);
	while (stream->done < until)
		pthread_cond_wait(&stream->change, &stream->lock);
	atomic_fetch_sub(&stream->queue.waiters, 1);

	int err = stream->error ? rd_fail(stream->error, "%s", stream->reason) : 0;

	pthread_mutex_unlock(&stream->lock);
	return err;
}

int rondo_stream_query(rondo_stream *stream)
{
	int status = 0;

	if (!stream)
		return rd_fail(RONDO_INVALID, "rondo_stream_query: stream is NULL");
	if (check_process(stream, "rondo_stream_query"))
		return RONDO_INVALID;
	if (stream->device_stream)
		return rd_device_stream_query(stream->device_stream);
	pthread_mutex_lock(&stream->lock);
	if (stream->done < stream->queued && !is_own_thread(stream))
		status = RONDO_PENDING;
	else if (stream->error)
		status = rd_fail(stream->error, "%s", stream->reason);
	pthread_mutex_unlock(&stream->lock);
	return status;
}

static void enqueue(struct rondo_stream *stream, struct item *item)
{
	pthread_mutex_lock(&stream->lock);
	*stream->last = item;
	stream->last = &item->next;
	stream->queued++;
	pthread_cond_broadcast(&stream->change);
	pthread_mutex_unlock(&stream->lock);
}

int rondo_stream_call(rondo_stream *stream, void (*run)(void *argument), void *argument)
{
	if (!stream || !run)
		return rd_fail(
			RONDO_INVALID, "rondo_stream_call: %s is NULL", stream ? "run" : "stream");
	if (check_process(stream, "rondo_stream_call"))
		return RONDO_INVALID;
	if (stream->device_stream)
		return rd_fail(RONDO_UNSUPPORTED,
			"rondo_stream_call: a device's stream runs no calls of the host's: use a "
			"host stream");

	struct item *item = calloc(1, sizeof(*item));

	if (!item)
		return rd_fail(RONDO_MEMORY, "no memory to queue a call");
	item->call = run;
	item->argument = argument;
	enqueue(stream, item);
	return 0;
}

int rd_stream_run(struct rondo_stream *stream, struct rd_task *tasks, int count)
{
	if (check_process(stream, rd_collective_name(tasks->call.problem.collective))) {
		rd_tasks_finish(tasks, count);
		return RONDO_INVALID;
	}
	if (stream->device_stream)
		return rd_gpu_submit(stream->device_stream, tasks, count);

	struct item *item = calloc(1, sizeof(*item) + count * sizeof(*tasks));

	if (!item) {
		rd_tasks_finish(tasks, count);
		return rd_fail(RONDO_MEMORY, "no memory to queue %d calls", count);
	}
	rd_tasks_issue(tasks, count);
	for (int i = 0; i < count; i++)
		tasks[i].queued = true;
	memcpy(item->tasks, tasks, count * sizeof(*tasks));
	item->count = count;
	enqueue(stream, item);
	return 0;
}
