/*
 * The agent of a gpu: a thread that does the host's part of calls on device memory, in the order
 * of issue, and watches: when the comm fails, or a peer is silent for too long, it lets go of every
 * stream that waits, so that it ends within a bound.
 */
#ifndef RD_PROGRESS_H
#define RD_PROGRESS_H

#include "gpu/gpu.h"

int rd_agent_create(struct rd_gpu *gpu);
/* Waits until what is queued is done, or has failed. NULL is fine. */
void rd_agent_destroy(struct rd_agent *agent);

/* Waits until the call of this number has finished, or failed. */
void rd_agent_await(struct rd_agent *agent, uint32_t number);

/* Queues issued tasks of this comm: on a lane that has been told to write flags->ready = number,
   and to wait for flags->finished. */
int rd_agent_queue(struct rd_agent *agent, struct rd_task *tasks, int count, uint32_t number);

/* For an issued call that is captured: has all ranks tell each other where their buffers lie, and
   waits for that. The work, a fused kernel's, is then complete; what it reaches stays mapped. */
int rd_agent_capture(struct rd_agent *agent, struct rd_task *task, struct rd_work *work);

/* The same for transfers: from[count] is where each receive's bytes lie, as addressed here. */
int rd_agent_capture_transfers(
	struct rd_agent *agent, struct rd_task *tasks, int count, const char *from[]);

/* ---- In the agent's thread ------------------------------------------------------------------- */

/* Waits until the gpu's stream has done what is queued on it; or an error of the comm's. */
int rd_agent_drain(struct rd_gpu *gpu);
/* 0 while the comm stands; else its error, and what waits has been let go. */
int rd_agent_watch(struct rd_gpu *gpu);

#endif
