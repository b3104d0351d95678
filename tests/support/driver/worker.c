/* Streams of emulated GPUs: each a queue and a thread that works it off. And graphs: what was
   queued on a stream while it was captured, to be queued again. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "worker.h"
#include "kernels.h"
#include "gpus.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/futex.h"

/* Bound of a sleep between polls of a flag: a device wakes nobody. */
#define POLL_NS 1000000

/* A point of one stream, for which another waits. */
struct mark {
	_Atomic int holders;
	uint32_t passed;
};

struct event {
	uint32_t recorded, reached; /* how often */
	int64_t at_ns;
};

enum item_kind { WAIT, WRITE, COPY, RUN, RUN_SMALL, RUN_STEPS, RUN_TRANSFERS, PASS, FOLLOW, STAMP };

struct item {
	struct item *next;
	enum item_kind kind;
	uint32_t *flag, value;
	void *to;
	const void *from;
	size_t size;
	struct mark *mark;
	struct event *event; /* STAMP */
	size_t what_size;
	/* RUN: struct rd_work; RUN_SMALL: struct rd_small_work; RUN_STEPS: struct rd_steps;
	   RUN_TRANSFERS: struct rd_transfer_work */
	_Alignas(16) char what[];
};

struct rd_emulated_graph {
	struct item *first, **last;
};

struct queue {
	pthread_t thread;
	int device;
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct item *first, **last;
	uint64_t queued, done;
	bool closing;
	struct rd_emulated_graph
		*graph; /* into which all goes that is queued, while it is captured */
	bool invalidated; /* its capture */
};

static void wait_for(const uint32_t *flag, uint32_t value)
{
	while (!rd_flag_reached(flag, value)) {
		uint32_t seen = __atomic_load_n(flag, __ATOMIC_ACQUIRE);

		if ((int32_t)(seen - value) < 0)
			rd_flag_sleep(flag, seen, POLL_NS);
	}
}

static void mark_put(struct mark *mark)
{
	if (mark && atomic_fetch_sub(&mark->holders, 1) == 1)
		free(mark);
}

static void run_item(struct item *item)
{
	switch (item->kind) {
	case WAIT:
		wait_for(item->flag, item->value);
		break;
	case WRITE:
		rd_flag_write(item->flag, item->value);
		break;
	case COPY:
		memmove(item->to, item->from, item->size);
		break;
	case RUN:
		rd_emulated_run((const struct rd_work *)item->what);
		break;
	case RUN_SMALL:
		rd_emulated_small((const struct rd_small_work *)item->what);
		break;
	case RUN_STEPS:
		rd_emulated_steps((const struct rd_steps *)item->what);
		break;
	case RUN_TRANSFERS:
		rd_emulated_transfers((const struct rd_transfer_work *)item->what);
		break;
	case PASS:
		rd_flag_write(&item->mark->passed, 1);
		break;
	case FOLLOW:
		wait_for(&item->mark->passed, 1);
		break;
	case STAMP:
		item->event->at_ns = rd_clock_ns();
		rd_flag_write(&item->event->reached, item->value);
		break;
	}
	mark_put(item->mark);
	free(item);
}

static void *work_off(void *argument)
{
	struct queue *queue = argument;

	pthread_mutex_lock(&queue->lock);
	while (queue->first || !queue->closing) {
		struct item *item = queue->first;

		if (!item) {
			pthread_cond_wait(&queue->change, &queue->lock);
			continue;
		}
		queue->first = item->next;
		if (!queue->first)
			queue->last = &queue->first;
		pthread_mutex_unlock(&queue->lock);
		run_item(item);
		pthread_mutex_lock(&queue->lock);
		queue->done++;
		pthread_cond_broadcast(&queue->change);
	}
	pthread_mutex_unlock(&queue->lock);
	return NULL;
}

int rd_emulated_stream_create(int device, void **stream)
{
	int err = rd_emulated_check_device(device);

	if (err)
		return err;

	struct queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return rd_fail(RONDO_MEMORY, "no memory for a stream");
	queue->device = device;
	queue->last = &queue->first;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->change, NULL);
	err = rd_thread_start(&queue->thread, 0, work_off, queue);
	if (err) {
		free(queue);
		return rd_fail(RONDO_SYSTEM, "cannot start a stream's thread: %s", strerror(err));
	}
	*stream = queue;
	return 0;
}

void rd_emulated_stream_destroy(int device, void *stream)
{
	struct queue *queue = stream;

	(void)device;
	if (!queue)
		return;
	pthread_mutex_lock(&queue->lock);
	queue->closing = true;
	pthread_cond_broadcast(&queue->change);
	pthread_mutex_unlock(&queue->lock);
	pthread_join(queue->thread, NULL);
	pthread_mutex_destroy(&queue->lock);
	pthread_cond_destroy(&queue->change);
	free(queue);
}

int rd_emulated_stream_synchronize(int device, void *stream)
{
	struct queue *queue = stream;

	(void)device;
	pthread_mutex_lock(&queue->lock);

	uint64_t until = queue->queued;
	bool captures = queue->graph;

	queue->invalidated |= captures;
	while (queue->done < until)
		pthread_cond_wait(&queue->change, &queue->lock);
	pthread_mutex_unlock(&queue->lock);
	return captures ? rd_fail(RONDO_INVALID, "a stream that is being captured does no work")
			: 0;
}

int rd_emulated_stream_query(int device, void *stream, bool *done)
{
	struct queue *queue = stream;

	(void)device;
	pthread_mutex_lock(&queue->lock);
	*done = queue->done == queue->queued;
	pthread_mutex_unlock(&queue->lock);
	return 0;
}

int rd_emulated_stream_check(int device, void *stream)
{
	const struct queue *queue = stream;
	int err = rd_emulated_check_device(device);

	if (err)
		return err;
	if (queue && queue->device == device)
		return 0;
	return rd_fail(RONDO_INVALID, "this stream is not of device %d", device);
}

enum rd_capture rd_emulated_stream_captures(void *stream)
{
	struct queue *queue = stream;

	pthread_mutex_lock(&queue->lock);

	enum rd_capture capture = queue->invalidated ? RD_CAPTURE_INVALIDATED
				  : queue->graph     ? RD_CAPTURE_ACTIVE
						     : RD_CAPTURE_NONE;

	pthread_mutex_unlock(&queue->lock);
	return capture;
}

void rd_emulated_ignore_captures(void)
{
}

static int enqueue_with(void *stream, const struct item *how, const void *what, size_t size)
{
	struct queue *queue = stream;
	struct item *item = calloc(1, sizeof(*item) + size);

	if (!item)
		return rd_fail(RONDO_MEMORY, "no memory to queue work on a stream");
	*item = *how;
	item->next = NULL;
	item->what_size = size;
	if (size > 0)
		memcpy(item->what, what, size);
	pthread_mutex_lock(&queue->lock);
	if (queue->invalidated) {
		pthread_mutex_unlock(&queue->lock);
		free(item);
		return rd_fail(RONDO_INVALID, "the stream's capture was invalidated");
	}
	if (queue->graph) {
		*queue->graph->last = item;
		queue->graph->last = &item->next;
	} else {
		*queue->last = item;
		queue->last = &item->next;
		queue->queued++;
		pthread_cond_broadcast(&queue->change);
	}
	pthread_mutex_unlock(&queue->lock);
	return 0;
}

static int enqueue(void *stream, const struct item *how)
{
	return enqueue_with(stream, how, NULL, 0);
}

int rd_emulated_stream_follow(int device, void *stream, void *earlier)
{
	struct mark *mark;

	(void)device;
	if (rd_emulated_stream_captures(stream) || rd_emulated_stream_captures(earlier))
		return rd_fail(RONDO_UNSUPPORTED, "emulated GPUs capture one stream alone");
	mark = calloc(1, sizeof(*mark));
	if (!mark)
		return rd_fail(RONDO_MEMORY, "no memory to queue work on a stream");
	mark->holders = 2;

	int err = enqueue(earlier, &(struct item){ .kind = PASS, .mark = mark });

	if (err) {
		free(mark);
		return err;
	}
	err = enqueue(stream, &(struct item){ .kind = FOLLOW, .mark = mark });
	if (err)
		mark_put(mark);
	return err;
}

int rd_emulated_post_flags(int device, void *stream, const struct rd_flag_op *ops, int count)
{
	int err = 0;

	(void)device;
	for (int i = 0; i < count && !err; i++)
		err = enqueue(stream, &(struct item){ .kind = ops[i].waits ? WAIT : WRITE,
					      .flag = ops[i].flag,
					      .value = ops[i].value });
	return err;
}

int rd_emulated_copy(int device, void *stream, void *to, const void *from, size_t size)
{
	(void)device;
	return enqueue(
		stream, &(struct item){ .kind = COPY, .to = to, .from = from, .size = size });
}

int rd_emulated_launch(int device, void *stream, const struct rd_work *work)
{
	(void)device;
	return enqueue_with(stream, &(struct item){ .kind = RUN }, work, sizeof(*work));
}

int rd_emulated_launch_small(int device, void *stream, const struct rd_small_work *work)
{
	(void)device;
	return enqueue_with(stream, &(struct item){ .kind = RUN_SMALL }, work, sizeof(*work));
}

int rd_emulated_launch_steps(int device, void *stream, const struct rd_steps *steps)
{
	(void)device;
	return enqueue_with(stream, &(struct item){ .kind = RUN_STEPS }, steps, sizeof(*steps));
}

int rd_emulated_launch_transfers(int device, void *stream, const struct rd_transfer_work *work)
{
	(void)device;
	return enqueue_with(stream, &(struct item){ .kind = RUN_TRANSFERS }, work, sizeof(*work));
}

int rd_emulated_event_create(int device, void **event)
{
	int err = rd_emulated_check_device(device);

	if (err)
		return err;
	*event = calloc(1, sizeof(struct event));
	return *event ? 0 : rd_fail(RONDO_MEMORY, "no memory for an event");
}

void rd_emulated_event_destroy(int device, void *event)
{
	struct event *gone = event;

	(void)device;
	wait_for(&gone->reached, gone->recorded);
	free(gone);
}

int rd_emulated_event_record(int device, void *stream, void *event)
{
	struct event *stamped = event;

	(void)device;
	stamped->recorded++;
	return enqueue(stream,
		&(struct item){ .kind = STAMP, .event = stamped, .value = stamped->recorded });
}

int rd_emulated_event_elapsed(int device, void *from, void *to, double *us)
{
	const struct event *first = from, *last = to;

	(void)device;
	wait_for(&first->reached, first->recorded);
	wait_for(&last->reached, last->recorded);
	*us = (double)(last->at_ns - first->at_ns) / 1e3;
	return 0;
}

/* ---- Graphs -------------------------------------------------------------------------------- */

int rd_emulated_capture(void *stream)
{
	struct queue *queue = stream;
	struct rd_emulated_graph *graph = calloc(1, sizeof(*graph));

	if (!graph)
		return rd_fail(RONDO_MEMORY, "no memory for a graph");
	graph->last = &graph->first;
	pthread_mutex_lock(&queue->lock);

	bool captures = queue->graph;

	if (!captures)
		queue->graph = graph;
	pthread_mutex_unlock(&queue->lock);
	if (!captures)
		return 0;
	free(graph);
	return rd_fail(RONDO_INVALID, "this stream is being captured already");
}

int rd_emulated_capture_end(void *stream, struct rd_emulated_graph **graph)
{
	struct queue *queue = stream;

	pthread_mutex_lock(&queue->lock);
	*graph = queue->graph;
	queue->graph = NULL;

	bool invalidated = queue->invalidated;

	queue->invalidated = false;
	pthread_mutex_unlock(&queue->lock);
	if (invalidated) {
		rd_emulated_graph_destroy(*graph);
		*graph = NULL;
		return rd_fail(RONDO_INVALID, "the stream's capture was invalidated");
	}
	return *graph ? 0 : rd_fail(RONDO_INVALID, "this stream was not being captured");
}

int rd_emulated_replay(const struct rd_emulated_graph *graph, void *stream)
{
	int err = 0;

	for (const struct item *item = graph->first; item && !err; item = item->next)
		err = enqueue_with(stream, item, item->what, item->what_size);
	return err;
}

void rd_emulated_graph_destroy(struct rd_emulated_graph *graph)
{
	while (graph && graph->first) {
		struct item *item = graph->first;

		graph->first = item->next;
		free(item);
	}
	free(graph);
}
