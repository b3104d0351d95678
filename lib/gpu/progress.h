/*
 * The progress thread of a gpu: a thread that does the host's part of calls on device memory, in the order
 * of issue, and watches: when the comm fails, or a peer is silent for too long, it lets go of every
 * stream that waits, so that it ends within a bound.
 */
#ifndef RD_PROGRESS_H
#define RD_PROGRESS_H

#include "gpu/gpu.h"

int rd_progress_create(struct rd_gpu *gpu);
/* Waits until what is queued is done, or has failed. NULL is fine. */
void rd_progress_destroy(struct rd_progress_thread *progress);

/* Waits until the call of this number has finished, or failed. */
void rd_progress_await(struct rd_progress_thread *progress, uint32_t number);

/* Queues issued tasks of this comm: on a device stream that has been told to write flags->ready = number,
   and to wait for flags->finished. */
int rd_progress_queue(struct rd_progress_thread *progress, struct rd_task *tasks, int count, uint32_t number);

/* For an issued call that is captured: has all ranks tell each other where their buffers lie, and
   waits for that. The work, a fused kernel's, is then complete; what it reaches stays mapped. */
int rd_progress_capture(struct rd_progress_thread *progress, struct rd_task *task, struct rd_work *work);

/* The same for transfers: from[count] is where each receive's bytes lie, as addressed here. */
int rd_progress_capture_transfers(
	struct rd_progress_thread *progress, struct rd_task *tasks, int count, const char *from[]);

#endif
