#include "device/device_stream.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"

/* What a kernel said becomes a fault when the comm's progress thread has seen it: at most so long. */
#define AGENT_SECONDS 5

/* ---- Faults -------------------------------------------------------------------------------- */

struct rd_fault *rd_fault_create(const struct rd_abort_flag *abort_flag)
{
	struct rd_fault *fault = calloc(1, sizeof(*fault));

	if (!fault)
		return NULL;
	fault->holders = 1;
	fault->abort_flag = abort_flag;
	pthread_mutex_init(&fault->lock, NULL);
	rd_condition_init(&fault->change);
	return fault;
}

void rd_fault_release(struct rd_fault *fault)
{
	if (!fault || atomic_fetch_sub(&fault->holders, 1) > 1)
		return;
	pthread_mutex_destroy(&fault->lock);
	pthread_cond_destroy(&fault->change);
	free(fault);
}

void rd_fault_set(struct rd_fault *fault, int error)
{
	pthread_mutex_lock(&fault->lock);
	if (!fault->error) {
		fault->error = error;
		snprintf(fault->story, sizeof(fault->story), "%s", rondo_last_error());
		pthread_cond_broadcast(&fault->change);
	}
	pthread_mutex_unlock(&fault->lock);
}

void rd_fault_close(struct rd_fault *fault)
{
	pthread_mutex_lock(&fault->lock);
	fault->abort_flag = NULL;
	pthread_cond_broadcast(&fault->change);
	pthread_mutex_unlock(&fault->lock);
}

static bool is_due(const struct rd_fault *fault)
{
	return !fault->error && fault->abort_flag &&
	       (__atomic_load_n(&fault->abort_flag->error, __ATOMIC_ACQUIRE) ||
		       __atomic_load_n(&fault->abort_flag->stop, __ATOMIC_ACQUIRE) ||
		       __atomic_load_n(&fault->abort_flag->warned, __ATOMIC_ACQUIRE));
}

static int fault_error(struct rd_fault *fault)
{
	struct timespec until;
	int late = 0, err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += AGENT_SECONDS;
	pthread_mutex_lock(&fault->lock);
	while (is_due(fault) && !late)
		late = pthread_cond_timedwait(&fault->change, &fault->lock, &until);
	if (fault->error)
		err = rd_fail(fault->error, "%s", fault->story);
	pthread_mutex_unlock(&fault->lock);
	return err;
}

/* ---- Lanes --------------------------------------------------------------------------------- */

int rd_device_stream_create(struct rd_device_stream **device_stream, int device, bool owned, void *stream)
{
	const struct rd_device_ops *ops = rd_device(true);

	if (!ops)
		return RONDO_UNSUPPORTED;

	struct rd_device_stream *made = calloc(1, sizeof(*made));

	if (!made)
		return rd_fail(RONDO_MEMORY, "no memory for a stream");
	made->ops = ops;
	made->device = device;
	made->stream = stream;
	made->owned = owned;

	int err = owned ? ops->stream_create(device, &made->stream)
			: ops->stream_check(device, stream);

	if (err) {
		free(made);
		return err;
	}
	pthread_mutex_init(&made->lock, NULL);
	*device_stream = made;
	return 0;
}

void rd_device_stream_destroy(struct rd_device_stream *device_stream)
{
	if (!device_stream)
		return;
	if (device_stream->owned)
		device_stream->ops->stream_destroy(device_stream->device, device_stream->stream);
	for (int i = 0; i < device_stream->fault_count; i++)
		rd_fault_release(device_stream->faults[i]);
	free(device_stream->faults);
	pthread_mutex_destroy(&device_stream->lock);
	free(device_stream);
}

int rd_device_stream_synchronize(struct rd_device_stream *device_stream)
{
	int err = device_stream->ops->stream_synchronize(device_stream->device, device_stream->stream), fault = 0;

	pthread_mutex_lock(&device_stream->lock);
	for (int i = 0; i < device_stream->fault_count && !fault; i++)
		fault = fault_error(device_stream->faults[i]);
	pthread_mutex_unlock(&device_stream->lock);
	return fault ? fault : err;
}

/* The comms' first failure; *due: one is about to be known. */
static int find_fault(struct rd_device_stream *device_stream, bool *due)
{
	int err = 0;

	pthread_mutex_lock(&device_stream->lock);
	for (int i = 0; i < device_stream->fault_count && !err; i++) {
		struct rd_fault *fault = device_stream->faults[i];

		pthread_mutex_lock(&fault->lock);
		*due |= is_due(fault);
		if (fault->error)
			err = rd_fail(fault->error, "%s", fault->story);
		pthread_mutex_unlock(&fault->lock);
	}
	pthread_mutex_unlock(&device_stream->lock);
	return err;
}

int rd_device_stream_query(struct rd_device_stream *device_stream)
{
	bool done = false, due = false;
	int err, fault;

	/* CUDA would end the capture. */
	if (device_stream->ops->stream_captures(device_stream->stream))
		return rd_fail(RONDO_UNSUPPORTED,
			"rondo_stream_query: the stream is being captured, and does no work");
	err = device_stream->ops->stream_query(device_stream->device, device_stream->stream, &done);
	if (!err && !done)
		return RONDO_PENDING;
	fault = find_fault(device_stream, &due);
	if (fault || err)
		return fault ? fault : err;
	return due ? RONDO_PENDING : 0;
}

static bool is_over(struct rd_fault *fault)
{
	pthread_mutex_lock(&fault->lock);

	bool over = !fault->error && !fault->abort_flag;

	pthread_mutex_unlock(&fault->lock);
	return over;
}

/* Comms that came and went in peace have nothing more to say. */
static void forget_over(struct rd_device_stream *device_stream)
{
	int kept = 0;

	for (int i = 0; i < device_stream->fault_count; i++) {
		if (is_over(device_stream->faults[i]))
			rd_fault_release(device_stream->faults[i]);
		else
			device_stream->faults[kept++] = device_stream->faults[i];
	}
	device_stream->fault_count = kept;
}

static int add(struct rd_device_stream *device_stream, struct rd_fault *fault)
{
	forget_over(device_stream);

	struct rd_fault **grown =
		realloc(device_stream->faults, (device_stream->fault_count + 1) * sizeof(struct rd_fault *));

	if (!grown)
		return rd_fail(RONDO_MEMORY, "no memory to note a comm on a stream");
	device_stream->faults = grown;
	grown[device_stream->fault_count++] = fault;
	atomic_fetch_add(&fault->holders, 1);
	return 0;
}

int rd_device_stream_hold(struct rd_device_stream *device_stream, struct rd_fault *fault)
{
	int err = 0;
	bool held = false;

	pthread_mutex_lock(&device_stream->lock);
	for (int i = 0; i < device_stream->fault_count && !held; i++)
		held = device_stream->faults[i] == fault;
	if (!held)
		err = add(device_stream, fault);
	pthread_mutex_unlock(&device_stream->lock);
	return err;
}
