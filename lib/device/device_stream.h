/*
 * A lane: a device's stream, as a rondo_stream has one. What comms that used it had to say when
 * they failed is heard when it is synchronised.
 */
#ifndef RD_DEVICE_STREAM_H
#define RD_DEVICE_STREAM_H

#include <pthread.h>

#include "device/device.h"
#include "base/error.h"

/* How a comm's calls on lanes failed, if they did. Held by the comm and by the lanes it used. */
struct rd_fault {
	_Atomic int holders;
	pthread_mutex_t lock;
	pthread_cond_t change;
	int error; /* the first failure, and its story */
	char story[RD_STORY_SIZE];
	/* The kernels' flag, from which a fault will follow; NULL once the comm is gone. */
	const struct rd_abort_flag *abort_flag;
};

struct rd_fault *rd_fault_create(const struct rd_abort_flag *abort_flag);
void rd_fault_release(struct rd_fault *fault); /* NULL is fine */
/* The last error of this thread is the fault, unless there was one before. */
void rd_fault_set(struct rd_fault *fault, int error);
/* The comm is gone: what its kernels have said must be known by now. */
void rd_fault_close(struct rd_fault *fault);

struct rd_lane {
	const struct rd_device_ops *ops;
	int device;
	void *stream;
	bool owned; /* the stream is ours to destroy */
	pthread_mutex_t lock;
	struct rd_fault **faults;
	int fault_count;
};

/* owned: makes a stream; else takes this one. */
int rd_lane_create(struct rd_lane **lane, int device, bool owned, void *stream);
void rd_lane_destroy(struct rd_lane *lane);
/* Waits; returns the first fault of a comm that this lane carried calls of. */
int rd_lane_synchronize(struct rd_lane *lane);
/* RONDO_PENDING, or what that would return. */
int rd_lane_query(struct rd_lane *lane);
/* From now on this fault is the lane's as well. */
int rd_lane_hold(struct rd_lane *lane, struct rd_fault *fault);

#endif
