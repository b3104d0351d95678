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

int rd_lane_create(struct rd_lane **lane, int device, bool owned, void *stream)
{
	const struct rd_device_ops *ops = rd_device(true);

	if (!ops)
		return RONDO_UNSUPPORTED;

	struct rd_lane *made = calloc(1, sizeof(*made));

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
	*lane = made;
	return 0;
}

void rd_lane_destroy(struct rd_lane *lane)
{
	if (!lane)
		return;
	if (lane->owned)
		lane->ops->stream_destroy(lane->device, lane->stream);
	for (int i = 0; i < lane->fault_count; i++)
		rd_fault_release(lane->faults[i]);
	free(lane->faults);
	pthread_mutex_destroy(&lane->lock);
	free(lane);
}

int rd_lane_synchronize(struct rd_lane *lane)
{
	int err = lane->ops->stream_synchronize(lane->device, lane->stream), fault = 0;

	pthread_mutex_lock(&lane->lock);
	for (int i = 0; i < lane->fault_count && !fault; i++)
		fault = fault_error(lane->faults[i]);
	pthread_mutex_unlock(&lane->lock);
	return fault ? fault : err;
}

/* The comms' first failure; *due: one is about to be known. */
static int find_fault(struct rd_lane *lane, bool *due)
{
	int err = 0;

	pthread_mutex_lock(&lane->lock);
	for (int i = 0; i < lane->fault_count && !err; i++) {
		struct rd_fault *fault = lane->faults[i];

		pthread_mutex_lock(&fault->lock);
		*due |= is_due(fault);
		if (fault->error)
			err = rd_fail(fault->error, "%s", fault->story);
		pthread_mutex_unlock(&fault->lock);
	}
	pthread_mutex_unlock(&lane->lock);
	return err;
}

int rd_lane_query(struct rd_lane *lane)
{
	bool done = false, due = false;
	int err, fault;

	/* CUDA would end the capture. */
	if (lane->ops->stream_captures(lane->stream))
		return rd_fail(RONDO_UNSUPPORTED,
			"rondo_stream_query: the stream is being captured, and does no work");
	err = lane->ops->stream_query(lane->device, lane->stream, &done);
	if (!err && !done)
		return RONDO_PENDING;
	fault = find_fault(lane, &due);
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
static void forget_over(struct rd_lane *lane)
{
	int kept = 0;

	for (int i = 0; i < lane->fault_count; i++) {
		if (is_over(lane->faults[i]))
			rd_fault_release(lane->faults[i]);
		else
			lane->faults[kept++] = lane->faults[i];
	}
	lane->fault_count = kept;
}

static int add(struct rd_lane *lane, struct rd_fault *fault)
{
	forget_over(lane);

	struct rd_fault **grown =
		realloc(lane->faults, (lane->fault_count + 1) * sizeof(struct rd_fault *));

	if (!grown)
		return rd_fail(RONDO_MEMORY, "no memory to note a comm on a stream");
	lane->faults = grown;
	grown[lane->fault_count++] = fault;
	atomic_fetch_add(&fault->holders, 1);
	return 0;
}

int rd_lane_hold(struct rd_lane *lane, struct rd_fault *fault)
{
	int err = 0;
	bool held = false;

	pthread_mutex_lock(&lane->lock);
	for (int i = 0; i < lane->fault_count && !held; i++)
		held = lane->faults[i] == fault;
	if (!held)
		err = add(lane, fault);
	pthread_mutex_unlock(&lane->lock);
	return err;
}
