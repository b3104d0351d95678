#include "queues.h"

#include <stdlib.h>

#include "base/thread.h"
#include "state.h"
#include "worker.h"

struct item {
	struct item *next; /* in its hardware queue */
	CUcontext context;
	CUstream stream;
	struct hardware_queue *hardware; /* NULL: it has started */
	enum item_kind kind;
	bool captured; /* into a graph: in no queue */
};

static int connections = 8;
static bool launches_block;

/* The one that the calling thread, a stream's, runs. */
static _Thread_local struct item *running;

void queues_start(void)
{
	const char *set = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");

	if (set && atoi(set) >= 1 && atoi(set) <= CONNECTIONS_MAX)
		connections = atoi(set);
	launches_block = blocking && atoi(blocking) == 1;
}

int queues_next(CUcontext context)
{
	int queue;

	pthread_mutex_lock(&context->queues.lock);
	queue = context->queues.streams++ % connections;
	pthread_mutex_unlock(&context->queues.lock);
	return queue;
}

/* ---- In a stream's thread ------------------------------------------------------------------ */

CUcontext item_context(void)
{
	return running ? running->context : NULL;
}

/* With the queues' lock held. */
static void start(struct item *item)
{
	if (!item->hardware)
		return;
	item->hardware->first = item->next;
	if (!item->next)
		item->hardware->last = NULL;
	item->hardware = NULL;
	pthread_cond_broadcast(&item->context->queues.change);
}

void item_start(void)
{
	struct queues *queues;

	if (!running)
		return;
	queues = &running->context->queues;
	pthread_mutex_lock(&queues->lock);
	start(running);
	pthread_mutex_unlock(&queues->lock);
}

static void enter(void *argument)
{
	struct item *item = argument;
	struct queues *queues = &item->context->queues;

	running = item;
	pthread_mutex_lock(&queues->lock);
	while (item->hardware && item->hardware->first != item)
		pthread_cond_wait(&queues->change, &queues->lock);
	if (item->kind == ITEM_OTHER || item->kind == ITEM_COPY)
		start(item);
	pthread_mutex_unlock(&queues->lock);
}

static void leave(void *argument)
{
	struct item *item = argument;
	struct queues *queues = &item->context->queues;

	pthread_mutex_lock(&queues->lock);
	start(item);
	queues->queued--;
	pthread_cond_broadcast(&queues->change);
	pthread_mutex_unlock(&queues->lock);
	running = NULL;
	free(item);
}

/* ---- In the caller's thread ---------------------------------------------------------------- */

static void append(struct item *item, struct hardware_queue *hardware)
{
	item->hardware = hardware;
	if (hardware->last)
		hardware->last->next = item;
	else
		hardware->first = item;
	hardware->last = item;
}

/* With the context's lock held. */
static CUresult take_place(struct item *item)
{
	struct queues *queues = &item->context->queues;
	int queue, priority;
	bool has_room;

	if (!stream_find(item->stream, &queue, &priority))
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&queues->lock);
	for (int ms = 0; ms < WAIT_WITH_LOCK_MS && queues->queued >= QUEUED_MAX; ms++)
		rd_condition_wait_ms(&queues->change, &queues->lock, 1);
	has_room = queues->queued < QUEUED_MAX;
	if (has_room) {
		queues->queued++;
		append(item, &queues->hardware[queue]);
	}
	pthread_mutex_unlock(&queues->lock);
	return has_room ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_TIMEOUT;
}

CUresult item_begin(CUstream stream, enum item_kind kind, struct item **begun)
{
	struct item *item;
	CUresult result = CUDA_SUCCESS;

	if (current() < 0 || !stream)
		return CUDA_ERROR_INVALID_CONTEXT;
	item = calloc(1, sizeof(*item));
	if (!item)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*item = (struct item){ .context = current_context(), .stream = stream, .kind = kind };
	lock_context();
	item->captured = worker_captures(stream);
	if (!item->captured)
		result = take_place(item);
	if (result == CUDA_SUCCESS && !item->captured && queue_call(stream, enter, item))
		abort(); /* no memory, and it has a place */
	if (result == CUDA_SUCCESS) {
		*begun = item;
		return CUDA_SUCCESS;
	}
	unlock_context();
	free(item);
	return result;
}

CUresult item_end(struct item *item, int err)
{
	/* The item goes when it has run. */
	CUstream stream = item->stream;
	enum item_kind kind = item->kind;
	bool waits = !err && !item->captured &&
		     (kind == ITEM_COPY || (kind == ITEM_KERNEL && launches_block));
	CUresult result = CUDA_SUCCESS;

	if (item->captured)
		free(item);
	else if (queue_call(stream, leave, item))
		abort();
	if (waits && !stream_drain(stream))
		result = kind == ITEM_COPY ? CUDA_ERROR_TIMEOUT : CUDA_ERROR_LAUNCH_TIMEOUT;
	unlock_context();
	return result ? result : done(err);
}
