#include "device/device_stream.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"

/* Bound on the time from a kernel's error to the progress thread's async error. */
#define PROGRESS_SECONDS 5

/* ---- Faults -------------------------------------------------------------------------------- */

struct rd_async_error *rd_async_error_create(const struct rd_abort_flag *abort_flag)
{
	struct rd_async_error *async_error = calloc(1, sizeof(*async_error));

	if (!async_error)
		return NULL;
	async_error->holders = 1;
	async_error->abort_flag = abort_flag;
	pthread_mutex_init(&async_error->lock, NULL);
	rd_condition_init(&async_error->change);
	return async_error;
}

void rd_async_error_release(struct rd_async_error *async_error)
{
	if (!async_error || atomic_fetch_sub(&async_error->holders, 1) > 1)
		return;
	pthread_mutex_destroy(&async_error->lock);
	pthread_cond_destroy(&async_error->change);
	free(async_error);
}

void rd_async_error_set(struct rd_async_error *async_error, int error)
{
	pthread_mutex_lock(&async_error->lock);
	if (!async_error->error) {
		async_error->error = error;
		snprintf(
			async_error->reason, sizeof(async_error->reason), "%s", rondo_last_error());
		pthread_cond_broadcast(&async_error->change);
	}
	pthread_mutex_unlock(&async_error->lock);
}

void rd_async_error_close(struct rd_async_error *async_error)
{
	pthread_mutex_lock(&async_error->lock);
	async_error->abort_flag = NULL;
	pthread_cond_broadcast(&async_error->change);
	pthread_mutex_unlock(&async_error->lock);
}

static bool is_due(const struct rd_async_error *async_error)
{
	return !async_error->error && async_error->abort_flag &&
	       (__atomic_load_n(&async_error->abort_flag->error, __ATOMIC_ACQUIRE) ||
		       __atomic_load_n(&async_error->abort_flag->stop, __ATOMIC_ACQUIRE) ||
		       __atomic_load_n(&async_error->abort_flag->warned, __ATOMIC_ACQUIRE));
}

static int take_async_error(struct rd_async_error *async_error)
{
	struct timespec until;
	int late = 0, err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PROGRESS_SECONDS;
	pthread_mutex_lock(&async_error->lock);
	while (is_due(async_error) && !late)
		late = pthread_cond_timedwait(&async_error->change, &async_error->lock, &until);
	if (async_error->error)
		err = rd_fail(async_error->error, "%s", async_error->reason);
	pthread_mutex_unlock(&async_error->lock);
	return err;
}

/* ---- Lanes --------------------------------------------------------------------------------- */

int rd_device_stream_create(
	struct rd_device_stream **device_stream, int device, bool owned, void *stream)
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
	made->holders = 1;

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

void rd_device_stream_get(struct rd_device_stream *device_stream)
{
	atomic_fetch_add(&device_stream->holders, 1);
}

void rd_device_stream_destroy(struct rd_device_stream *device_stream)
{
	const struct rd_device_ops *ops;

	if (!device_stream)
		return;
	ops = device_stream->ops;
	/* A stream that captures does no work, and a wait would end the capture. */
	if (!ops->stream_captures(device_stream->stream))
		ops->stream_synchronize(device_stream->device, device_stream->stream);
	pthread_mutex_lock(&device_stream->lock);
	device_stream->ended = true;
	if (device_stream->owned)
		ops->stream_destroy(device_stream->device, device_stream->stream);
	pthread_mutex_unlock(&device_stream->lock);
	rd_device_stream_put(device_stream);
}

/* With the lock held. One that has ended was waited for. */
static bool captures(const struct rd_device_stream *device_stream)
{
	return !device_stream->ended && device_stream->ops->stream_captures(device_stream->stream);
}

int rd_device_stream_follow(void *stream, struct rd_device_stream *earlier)
{
	int err = 0;

	pthread_mutex_lock(&earlier->lock);
	if (earlier->stream != stream && captures(earlier))
		err = rd_fail(RONDO_UNSUPPORTED,
			"a stream that is being captured since the comm's last call there cannot "
			"be waited for: end the capture first");
	else if (!earlier->ended && earlier->stream != stream)
		err = earlier->ops->stream_follow(earlier->device, stream, earlier->stream);
	pthread_mutex_unlock(&earlier->lock);
	return err;
}

bool rd_device_stream_captures(struct rd_device_stream *device_stream)
{
	pthread_mutex_lock(&device_stream->lock);

	bool result = captures(device_stream);

	pthread_mutex_unlock(&device_stream->lock);
	return result;
}

void rd_device_stream_put(struct rd_device_stream *device_stream)
{
	if (!device_stream || atomic_fetch_sub(&device_stream->holders, 1) > 1)
		return;
	for (int i = 0; i < device_stream->async_error_count; i++)
		rd_async_error_release(device_stream->async_errors[i]);
	free(device_stream->async_errors);
	pthread_mutex_destroy(&device_stream->lock);
	free(device_stream);
}

int rd_device_stream_synchronize(struct rd_device_stream *device_stream)
{
	int err = device_stream->ops->stream_synchronize(
		    device_stream->device, device_stream->stream),
	    async_error = 0;

	pthread_mutex_lock(&device_stream->lock);
	for (int i = 0; i < device_stream->async_error_count && !async_error; i++)
		async_error = take_async_error(device_stream->async_errors[i]);
	pthread_mutex_unlock(&device_stream->lock);
	return async_error ? async_error : err;
}

/* The comms' first failure; *due: one is about to be known. */
static int find_fault(struct rd_device_stream *device_stream, bool *due)
{
	int err = 0;

	pthread_mutex_lock(&device_stream->lock);
	for (int i = 0; i < device_stream->async_error_count && !err; i++) {
		struct rd_async_error *async_error = device_stream->async_errors[i];

		pthread_mutex_lock(&async_error->lock);
		*due |= is_due(async_error);
		if (async_error->error)
			err = rd_fail(async_error->error, "%s", async_error->reason);
		pthread_mutex_unlock(&async_error->lock);
	}
	pthread_mutex_unlock(&device_stream->lock);
	return err;
}

int rd_device_stream_query(struct rd_device_stream *device_stream)
{
	bool done = false, due = false;
	int async_error, err = rd_device_check_capture(
				 device_stream->ops, device_stream->stream, "rondo_stream_query");

	if (err)
		return err;
	/* CUDA would end the capture. */
	if (device_stream->ops->stream_captures(device_stream->stream))
		return rd_fail(RONDO_UNSUPPORTED,
			"rondo_stream_query: the stream is being captured, and does no work");
	err = device_stream->ops->stream_query(device_stream->device, device_stream->stream, &done);
	if (!err && !done)
		return RONDO_PENDING;
	async_error = find_fault(device_stream, &due);
	if (async_error || err)
		return async_error ? async_error : err;
	return due ? RONDO_PENDING : 0;
}

static bool is_over(struct rd_async_error *async_error)
{
	pthread_mutex_lock(&async_error->lock);

	bool over = !async_error->error && !async_error->abort_flag;

	pthread_mutex_unlock(&async_error->lock);
	return over;
}

/* Drops the references to comms that ended without an error. */
static void drop_over(struct rd_device_stream *device_stream)
{
	int kept = 0;

	for (int i = 0; i < device_stream->async_error_count; i++) {
		if (is_over(device_stream->async_errors[i]))
			rd_async_error_release(device_stream->async_errors[i]);
		else
			device_stream->async_errors[kept++] = device_stream->async_errors[i];
	}
	device_stream->async_error_count = kept;
}

static int add(struct rd_device_stream *device_stream, struct rd_async_error *async_error)
{
	drop_over(device_stream);

	struct rd_async_error **grown = realloc(device_stream->async_errors,
		(device_stream->async_error_count + 1) * sizeof(struct rd_async_error *));

	if (!grown)
		return rd_fail(RONDO_MEMORY, "no memory to note a comm on a stream");
	device_stream->async_errors = grown;
	grown[device_stream->async_error_count++] = async_error;
	atomic_fetch_add(&async_error->holders, 1);
	return 0;
}

int rd_device_stream_watch(
	struct rd_device_stream *device_stream, struct rd_async_error *async_error)
{
	int err = 0;
	bool listed = false;

	pthread_mutex_lock(&device_stream->lock);
	for (int i = 0; i < device_stream->async_error_count && !listed; i++)
		listed = device_stream->async_errors[i] == async_error;
	if (!listed)
		err = add(device_stream, async_error);
	pthread_mutex_unlock(&device_stream->lock);
	return err;
}
