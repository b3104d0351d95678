#include "worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "base/thread.h"

/* Bound of a sleep between polls of a flag: a device wakes nobody. */
#define POLL_NS 1000000

struct wait {
	const uint32_t *flag;
	uint32_t value;
};

struct write {
	uint32_t *flag;
	uint32_t value;
};

struct copy {
	void *to;
	const void *from;
	size_t size;
};

struct entry {
	struct entry *next;
	void (*run)(const void *what);
	size_t size;
	_Alignas(16) char what[];
};

struct CUgraph_st {
	struct entry *first, **last;
};

struct CUstream_st {
	pthread_t thread;
	int device;
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct entry *first, **last;
	uint64_t queued, done;
	bool closing;
	CUgraph graph; /* into which all goes that is queued, while it is captured */
	bool invalidated; /* its capture */
};

/* ---- In the thread ------------------------------------------------------------------------- */

static void wait_now(const void *what)
{
	const struct wait *wait = what;

	while (!rd_flag_reached(wait->flag, wait->value)) {
		uint32_t seen = __atomic_load_n(wait->flag, __ATOMIC_ACQUIRE);

		if ((int32_t)(seen - wait->value) < 0)
			rd_flag_sleep(wait->flag, seen, POLL_NS);
	}
}

static void write_now(const void *what)
{
	const struct write *write = what;

	rd_flag_write(write->flag, write->value);
}

static void copy_now(const void *what)
{
	const struct copy *copy = what;

	memmove(copy->to, copy->from, copy->size);
}

static void *work_off(void *argument)
{
	CUstream stream = argument;

	pthread_mutex_lock(&stream->lock);
	while (stream->first || !stream->closing) {
		struct entry *entry = stream->first;

		if (!entry) {
			pthread_cond_wait(&stream->change, &stream->lock);
			continue;
		}
		stream->first = entry->next;
		if (!stream->first)
			stream->last = &stream->first;
		pthread_mutex_unlock(&stream->lock);
		entry->run(entry->what);
		free(entry);
		pthread_mutex_lock(&stream->lock);
		stream->done++;
		pthread_cond_broadcast(&stream->change);
	}
	pthread_mutex_unlock(&stream->lock);
	return NULL;
}

/* ---- Streams ------------------------------------------------------------------------------- */

CUstream worker_create(int device)
{
	CUstream stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->device = device;
	stream->last = &stream->first;
	pthread_mutex_init(&stream->lock, NULL);
	pthread_cond_init(&stream->change, NULL);
	if (rd_thread_start(&stream->thread, 0, work_off, stream)) {
		free(stream);
		return NULL;
	}
	return stream;
}

void worker_destroy(CUstream stream)
{
	pthread_mutex_lock(&stream->lock);
	stream->closing = true;
	pthread_cond_broadcast(&stream->change);
	pthread_mutex_unlock(&stream->lock);
	pthread_join(stream->thread, NULL);
	pthread_mutex_destroy(&stream->lock);
	pthread_cond_destroy(&stream->change);
	free(stream);
}

int worker_device(CUstream stream)
{
	return stream->device;
}

bool worker_synchronize(CUstream stream)
{
	pthread_mutex_lock(&stream->lock);

	uint64_t until = stream->queued;
	bool captures = stream->graph;

	stream->invalidated |= captures;
	while (stream->done < until)
		pthread_cond_wait(&stream->change, &stream->lock);
	pthread_mutex_unlock(&stream->lock);
	return !captures;
}

bool worker_is_idle(CUstream stream)
{
	pthread_mutex_lock(&stream->lock);

	bool idle = stream->done == stream->queued;

	pthread_mutex_unlock(&stream->lock);
	return idle;
}

int worker_run(CUstream stream, void (*run)(const void *what), const void *what, size_t size)
{
	struct entry *entry = calloc(1, sizeof(*entry) + size);

	if (!entry)
		return 1;
	entry->run = run;
	entry->size = size;
	memcpy(entry->what, what, size);
	pthread_mutex_lock(&stream->lock);

	bool invalidated = stream->invalidated;

	if (!invalidated && stream->graph) {
		*stream->graph->last = entry;
		stream->graph->last = &entry->next;
	} else if (!invalidated) {
		*stream->last = entry;
		stream->last = &entry->next;
		stream->queued++;
		pthread_cond_broadcast(&stream->change);
	}
	pthread_mutex_unlock(&stream->lock);
	if (invalidated)
		free(entry);
	return invalidated;
}

int worker_wait(CUstream stream, const uint32_t *flag, uint32_t value)
{
	return worker_run(stream, wait_now, &(struct wait){ flag, value }, sizeof(struct wait));
}

int worker_write(CUstream stream, uint32_t *flag, uint32_t value)
{
	return worker_run(stream, write_now, &(struct write){ flag, value }, sizeof(struct write));
}

int worker_copy(CUstream stream, void *to, const void *from, size_t size)
{
	return worker_run(stream, copy_now, &(struct copy){ to, from, size }, sizeof(struct copy));
}

/* ---- Graphs -------------------------------------------------------------------------------- */

CUstreamCaptureStatus worker_captures(CUstream stream)
{
	pthread_mutex_lock(&stream->lock);

	CUstreamCaptureStatus status = stream->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
				       : stream->graph     ? CU_STREAM_CAPTURE_STATUS_ACTIVE
							   : CU_STREAM_CAPTURE_STATUS_NONE;

	pthread_mutex_unlock(&stream->lock);
	return status;
}

int worker_capture(CUstream stream)
{
	CUgraph graph = calloc(1, sizeof(*graph));

	if (!graph)
		return 1;
	graph->last = &graph->first;
	pthread_mutex_lock(&stream->lock);

	bool captures = stream->graph;

	if (!captures)
		stream->graph = graph;
	pthread_mutex_unlock(&stream->lock);
	if (captures)
		free(graph);
	return captures;
}

int worker_capture_end(CUstream stream, CUgraph *graph)
{
	pthread_mutex_lock(&stream->lock);
	*graph = stream->graph;
	stream->graph = NULL;

	bool invalidated = stream->invalidated;

	stream->invalidated = false;
	pthread_mutex_unlock(&stream->lock);
	if (invalidated) {
		graph_destroy(*graph);
		*graph = NULL;
	}
	return !*graph;
}

int worker_replay(CUstream stream, CUgraph graph)
{
	int err = 0;

	for (const struct entry *entry = graph->first; entry && !err; entry = entry->next)
		err = worker_run(stream, entry->run, entry->what, entry->size);
	return err;
}

void graph_destroy(CUgraph graph)
{
	while (graph && graph->first) {
		struct entry *entry = graph->first;

		graph->first = entry->next;
		free(entry);
	}
	free(graph);
}
