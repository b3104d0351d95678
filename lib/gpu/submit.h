/* Calls on device memory, from the caller to a kernel on its stream or to the progress thread. */
#ifndef RD_SUBMIT_H
#define RD_SUBMIT_H

#include "gpu/state.h"

/* The stream that a call was made on. */
struct rd_call_stream {
	const struct rd_device_stream *device_stream; /* NULL: a host stream, or none */
	bool is_host;
	bool in_group; /* the call is made in an open group */
};

int rd_gpu_check_buffers(struct rondo_comm *comm, const struct rd_call *call,
	const struct rd_call_stream *stream, bool *takes);

/*
 * Whether a call's buffers are device memory, and it is for the gpu to run; an error where they
 * are not what the comm and the stream can use. Where there is no device it costs next to nothing.
 */
static inline int rd_gpu_takes(struct rondo_comm *comm, const struct rd_call *call,
	const struct rd_call_stream *stream, bool *takes)
{
	*takes = false;
	if (!stream->device_stream && !comm->gpu && !comm->meets_devices)
		return 0;
	return rd_gpu_check_buffers(comm, call, stream, takes);
}

/* Runs a checked call on no stream: now. Takes over its vcounts and user operation, as
   rd_gpu_submit() does. */
int rd_gpu_run(struct rd_task *task);
/* Queues checked calls, of one comm or several. */
int rd_gpu_submit(struct rd_device_stream *device_stream, struct rd_task *tasks, int count);

#endif
