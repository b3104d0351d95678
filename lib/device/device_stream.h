/*
 * A device stream: a device's stream in a rondo_stream. Synchronising it returns the first async
 * error of the comms that used it.
 */
#ifndef RD_DEVICE_STREAM_H
#define RD_DEVICE_STREAM_H

#include <pthread.h>

#include "device/device.h"
#include "base/error.h"

/* The first failure of a comm's calls on device streams. Reference counted: the comm and each
   device stream that it used hold a reference. */
struct rd_async_error {
	_Atomic int holders;
	pthread_mutex_t lock;
	pthread_cond_t change;
	int error; /* the first failure, and its reason */
	char reason[RD_REASON_SIZE];
	/* Its kernels' reports, which become the error; NULL once the comm is gone. */
	const struct rd_abort_flag *abort_flag;
};

struct rd_async_error *rd_async_error_create(const struct rd_abort_flag *abort_flag);
void rd_async_error_release(struct rd_async_error *async_error); /* NULL is fine */
/* Records the last error of this thread, unless there is an earlier one. */
void rd_async_error_set(struct rd_async_error *async_error, int error);
/* The comm ends: no report of its kernels follows. */
void rd_async_error_close(struct rd_async_error *async_error);

/* Reference counted: rondo_stream and each comm whose last call was on it hold a reference. */
struct rd_device_stream {
	const struct rd_device_ops *ops;
	int device;
	void *stream;
	bool owned; /* the stream is ours to destroy */
	_Atomic int holders;
	pthread_mutex_t lock;
	bool ended; /* rondo_stream is gone, and so may be the stream */
	struct rd_async_error **async_errors;
	int async_error_count;
};

/* owned: makes a stream; else takes this one. */
int rd_device_stream_create(
	struct rd_device_stream **device_stream, int device, bool owned, void *stream);
/* Waits for the work queued on the stream, and drops a reference. NULL is fine. */
void rd_device_stream_destroy(struct rd_device_stream *device_stream);
void rd_device_stream_get(struct rd_device_stream *device_stream);
void rd_device_stream_put(struct rd_device_stream *device_stream);
/* Later work on `stream` waits for what is queued now on `earlier`, which may have ended.
   RONDO_UNSUPPORTED: not while `earlier` is being captured. */
int rd_device_stream_follow(void *stream, struct rd_device_stream *earlier);
/* False where it has ended. */
bool rd_device_stream_captures(struct rd_device_stream *device_stream);
/* Waits; returns the first async error of the comms that used it. */
int rd_device_stream_synchronize(struct rd_device_stream *device_stream);
/* The same without waiting: RONDO_PENDING while work is queued. */
int rd_device_stream_query(struct rd_device_stream *device_stream);
/* Takes a reference: this device stream returns the error from now on. */
int rd_device_stream_watch(
	struct rd_device_stream *device_stream, struct rd_async_error *async_error);

#endif
