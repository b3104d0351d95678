/*
 * Staging: calls on device memory that run in host memory, where devices do not reach each other.
 * A call is cut into parts, the same on every rank. While the host runs one part, the next is
 * copied in and the previous one out.
 *
 * The caller queues all copies when it issues the call, between waits for flags: for the host,
 * which counts the parts that it has run, and for room. The progress thread waits for the copies'
 * flags, runs the parts, and makes no call to the driver.
 */
#ifndef RD_STAGING_H
#define RD_STAGING_H

#include "gpu/state.h"

/* Queues a collective, or transfers that run side by side. *queued: the progress thread finishes
   the tasks. The first failure ends the comm. */
int rd_stage_queue(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *tasks, int count, bool *queued);

#endif
