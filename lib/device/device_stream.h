/*
 * A device stream: a device's stream, as a rondo_stream has one. What comms that used it had to say
 * when they failed is heard when it is synchronised.
 */
#ifndef RD_DEVICE_STREAM_H
#define RD_DEVICE_STREAM_H

#include <pthread.h>

#include "device/device.h"
#include "base/error.h"

/* How a comm's calls on device streams failed, if they did. Held by the comm and by the device
 * streams it used. */
struct rd_async_error {
	_Atomic int holders;
	pthread_mutex_t lock;
	pthread_cond_t change;
	int error; /* the first failure, and its reason */
	char reason[RD_REASON_SIZE];
	/* The kernels' flag, from which an async error will follow; NULL once the comm is gone. */
	const struct rd_abort_flag *abort_flag;
};

struct rd_async_error *rd_async_error_create(const struct rd_abort_flag *abort_flag);
void rd_async_error_release(struct rd_async_error *async_error); /* NULL is fine */
/* The last error of this thread is the fault, unless there was one before. */
void rd_async_error_set(struct rd_async_error *async_error, int error);
/* The comm is gone: what its kernels have said must be known by now. */
void rd_async_error_close(struct rd_async_error *async_error);

struct rd_device_stream {
	const struct rd_device_ops *ops;
	int device;
	void *stream;
	bool owned; /* the stream is ours to destroy */
	pthread_mutex_t lock;
	struct rd_async_error **async_errors;
	int async_error_count;
};

/* owned: makes a stream; else takes this one. */
int rd_device_stream_create(
	struct rd_device_stream **device_stream, int device, bool owned, void *stream);
void rd_device_stream_destroy(struct rd_device_stream *device_stream);
/* Waits; returns the first fault of a comm that this device stream carried calls of. */
int rd_device_stream_synchronize(struct rd_device_stream *device_stream);
/* RONDO_PENDING, or what that would return. */
int rd_device_stream_query(struct rd_device_stream *device_stream);
/* From now on this fault is the device stream's as well. */
int rd_device_stream_hold(
	struct rd_device_stream *device_stream, struct rd_async_error *async_error);

#endif
