/*
 * Calls by direct access that wait in the stream, and spin in no block: how the caller queues one.
 * The stream writes that it has entered the call, in the flags of all ranks, and waits for all;
 * then it runs the kernel; then it writes that it has left, and waits for all again. The idea of
 * waits in streams for flags of peers is CUDA's stream memory operations.
 */
#ifndef RD_QUEUE_DIRECT_H
#define RD_QUEUE_DIRECT_H

#include "gpu/state.h"

/* Queues a collective, whose work rd_direct_work() has made. *queued: the progress thread finishes
   the task. */
int rd_queue_direct(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *task, struct rd_work *work, bool *queued);

#endif
