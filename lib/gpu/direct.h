/*
 * Calls by direct access, where all ranks map each other's device memory: the work of a kernel, and
 * the exchange of buffer locations between processes.
 */
#ifndef RD_DIRECT_H
#define RD_DIRECT_H

#include "gpu/gpu.h"

/* The work of a call. Addresses are still missing. *direct: false where the call is to be staged,
   on all ranks alike. An error: this rank alone lacks memory, and the caller must fail the comm. */
int rd_direct_work(
	struct rd_gpu *gpu, const struct rd_call *call, struct rd_work *work, bool *direct);
/* Fills in what a fused kernel needs beyond its steps. */
void rd_direct_fuse(struct rd_gpu *gpu, const struct rd_call *call, struct rd_work *work);

/* ---- In the progress thread ------------------------------------------------------------------ */

/* All ranks announce where their buffers lie, check that they make the same call, and fill in the
   addresses. *direct: false where a buffer cannot be mapped, on all ranks alike. captured: for a
   graph; peers' buffers then stay mapped. */
int rd_direct_exchange(struct rd_gpu *gpu, const struct rd_call *call, bool captured,
	struct rd_work *work, bool *direct);
/* Queues the work that was exchanged last on the gpu's stream: a stepped kernel between two
   barriers. */
int rd_direct_queue(struct rd_gpu *gpu, struct rd_work *work);

#endif
