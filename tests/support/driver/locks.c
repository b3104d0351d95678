/* The locks that CUDA holds while it waits: for code that is loaded, and the context's. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "state.h"
#include "worker.h"

#define STREAMS_MAX 256

struct stream {
	CUstream stream;
	CUcontext context;
	int queue, priority;
};

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream streams[STREAMS_MAX];

void lock_context(void)
{
	pthread_mutex_lock(&driver_lock);
	pthread_mutex_unlock(&driver_lock);
	pthread_mutex_lock(&current_context()->lock);
}

void unlock_context(void)
{
	pthread_mutex_unlock(&current_context()->lock);
}

EXPORT int emulated_locked(int device)
{
	pthread_mutex_t *lock = &context_of(device)->lock;

	if (pthread_mutex_trylock(lock))
		return 1;
	pthread_mutex_unlock(lock);
	return 0;
}

/* NULL: a free one. With the streams' lock held. */
static struct stream *find_stream(CUstream stream)
{
	for (int i = 0; i < STREAMS_MAX; i++)
		if (streams[i].stream == stream)
			return &streams[i];
	return NULL;
}

CUresult stream_add(CUstream stream, int priority)
{
	struct stream *entry;

	pthread_mutex_lock(&streams_lock);
	entry = find_stream(NULL);
	if (entry)
		*entry = (struct stream){ stream, current_context(), queues_next(current_context()),
			priority };
	pthread_mutex_unlock(&streams_lock);
	return entry ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* With the locks of those who wait for all streams: they still wait for this one. */
void stream_remove(CUstream stream)
{
	struct stream *entry;

	pthread_mutex_lock(&driver_lock);
	pthread_mutex_lock(&current_context()->lock);
	pthread_mutex_lock(&streams_lock);
	entry = find_stream(stream);
	if (entry)
		entry->stream = NULL;
	pthread_mutex_unlock(&streams_lock);
	pthread_mutex_unlock(&current_context()->lock);
	pthread_mutex_unlock(&driver_lock);
}

bool stream_find(CUstream stream, int *queue, int *priority)
{
	const struct stream *entry;

	pthread_mutex_lock(&streams_lock);
	entry = find_stream(stream);
	if (entry) {
		*queue = entry->queue;
		*priority = entry->priority;
	}
	pthread_mutex_unlock(&streams_lock);
	return entry;
}

/* A point of a stream, which it may reach when nobody waits any more. */
struct point {
	uint32_t reached;
	_Atomic int holders;
};

static void let_go(struct point *point)
{
	if (atomic_fetch_sub(&point->holders, 1) == 1)
		free(point);
}

static void reach(void *argument)
{
	struct point *point = argument;

	rd_flag_write(&point->reached, 1);
	let_go(point);
}

bool stream_drain(CUstream stream)
{
	struct point *point = calloc(1, sizeof(*point));
	bool drained;

	if (!point)
		return false;
	point->holders = 2;
	if (queue_call(stream, reach, point)) {
		free(point);
		return false;
	}
	for (int ms = 0; ms < WAIT_WITH_LOCK_MS && !rd_flag_reached(&point->reached, 1); ms++)
		rd_flag_sleep(&point->reached, 0, 1000000);
	drained = rd_flag_reached(&point->reached, 1);
	let_go(point);
	return drained;
}

/* Those of a context, or of all: NULL. One that is captured does nothing. */
static bool drain_all(CUcontext context)
{
	struct stream copy[STREAMS_MAX];
	bool drained = true;

	pthread_mutex_lock(&streams_lock);
	memcpy(copy, streams, sizeof(copy));
	pthread_mutex_unlock(&streams_lock);
	for (int i = 0; i < STREAMS_MAX && drained; i++)
		drained = !copy[i].stream || (context && copy[i].context != context) ||
			  worker_captures(copy[i].stream) || stream_drain(copy[i].stream);
	return drained;
}

EXPORT int emulated_load(void)
{
	bool drained;

	pthread_mutex_lock(&driver_lock);
	drained = drain_all(NULL);
	pthread_mutex_unlock(&driver_lock);
	return !drained;
}

bool wait_for_device(void)
{
	bool drained;

	lock_context();
	drained = drain_all(current_context());
	unlock_context();
	return drained;
}
