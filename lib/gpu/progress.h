/*
 * The progress thread of a gpu. It does the host's part of calls on device memory, in the order of
 * issue, and calls the driver only while the caller waits for it: otherwise a thread of the program
 * may have locked the driver until this very stream is done. It also watches: when the comm fails,
 * or a peer is silent for too long, it ends all waits of streams, so that these end within a bound.
 */
#ifndef RD_PROGRESS_H
#define RD_PROGRESS_H

#include "gpu/direct.h"
#include "gpu/state.h"
#include "gpu/staged.h"

int rd_progress_create(struct rd_gpu *gpu);
/* Waits until what is queued is done, or has failed. NULL is fine. */
void rd_progress_destroy(struct rd_progress_thread *progress);

/* Queues an announced call, to fill in its addresses. job->waits: until they are there; the task
   then stays the caller's. Else it is the progress thread's, unless this returns an error. */
int rd_progress_map(struct rd_progress_thread *progress, const struct rd_task *task,
	const struct rd_direct_job *job, struct rd_buffer_addresses *addresses);

/* Queues issued tasks that are staged: they run in host memory. */
int rd_progress_stage(struct rd_progress_thread *progress, struct rd_task *tasks, int count,
	struct rd_staged *staged, uint32_t number);

/* For transfers that are captured, among processes: waits until the ranks have exchanged offers.
   from[count]: where each receive's bytes lie, as addressed here. */
int rd_progress_capture_transfers(
	struct rd_progress_thread *progress, struct rd_task *tasks, int count, const char *from[]);

#endif
