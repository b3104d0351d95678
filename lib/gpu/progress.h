/*
 * The progress thread of a gpu. It does the host's part of calls on device memory, in the order of
 * issue. It also watches: when the comm fails, or a peer is silent for too long, it ends all waits
 * of streams, so that these end within a bound.
 */
#ifndef RD_PROGRESS_H
#define RD_PROGRESS_H

#include "gpu/gpu.h"

int rd_progress_create(struct rd_gpu *gpu);
/* Waits until what is queued is done, or has failed. NULL is fine. */
void rd_progress_destroy(struct rd_progress_thread *progress);

/* Waits until the call of this number has finished, or failed. */
void rd_progress_await(struct rd_progress_thread *progress, uint32_t number);

/* Queues issued tasks of this comm. Their device stream writes `number` to its flag `ready` in
   gpu->stream_flags, and waits for `finished` there. */
int rd_progress_queue(
	struct rd_progress_thread *progress, struct rd_task *tasks, int count, uint32_t number);

/* For an issued call that is captured: all ranks announce where their buffers lie, and this waits
   until they have. The work, a fused kernel's, is then complete; peers' buffers stay mapped. */
int rd_progress_capture(
	struct rd_progress_thread *progress, struct rd_task *task, struct rd_work *work);

/* The same for transfers: from[count] is where each receive's bytes lie, as addressed here. */
int rd_progress_capture_transfers(
	struct rd_progress_thread *progress, struct rd_task *tasks, int count, const char *from[]);

#endif
