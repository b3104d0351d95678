/*
 * Calls by direct access, where all ranks map each other's device memory: the work of a kernel, and
 * the exchange of buffer locations. A rank announces its buffers when it issues the call. Its
 * progress thread waits for the announcements of all ranks, maps what it has not mapped yet, and
 * fills in the addresses that the kernel reads.
 */
#ifndef RD_DIRECT_H
#define RD_DIRECT_H

#include "gpu/state.h"

/* The plan of a call; NULL: a barrier has none. *direct: false where the call is to be staged, on
   all ranks alike. An error: this rank alone lacks memory, and the caller must fail the comm. */
int rd_direct_plan(
	struct rd_gpu *gpu, const struct rd_call *call, const struct rd_plan **plan, bool *direct);
/* The work of a call with this plan. Addresses are still missing. */
void rd_direct_work(struct rd_gpu *gpu, const struct rd_call *call, const struct rd_plan *plan,
	struct rd_work *work);
/* Another rank's work of a direct call, as this rank can run it. Not for calls with vcounts. */
int rd_direct_work_of(
	struct rd_gpu *gpu, const struct rd_call *call, int rank, struct rd_work *work);
/* Whether a kernel can move the call's data together with its flags (small_work.h). */
bool rd_direct_is_small(const struct rd_call *call);
/* All of such a call's work. */
void rd_direct_small_work(
	struct rd_gpu *gpu, const struct rd_call *call, struct rd_small_work *work);
/* Fills in what a kernel needs that waits for its peers. */
void rd_direct_fuse(struct rd_gpu *gpu, const struct rd_call *call, struct rd_work *work);

/* Announces where this rank's buffers lie, as gpu->announced + 1, which it counts. The call gets
   other buffers where peers cannot map these (exports.h). number: of the call on its stream.
   *waits: the caller must wait for the addresses before it goes on. */
int rd_direct_announce(struct rd_gpu *gpu, struct rd_call *call, const struct rd_work *work,
	bool captured, uint32_t number, bool *waits);

/* A call that was announced. */
struct rd_direct_job {
	const struct rd_call *call;
	uint32_t announced;
	uint32_t number; /* on its stream: waits are bounded once it is there; 0: at once */
	bool captured;
	bool waits; /* the caller does, until the addresses are there */
};

/* In the progress thread: fills in the addresses, and writes own_flags->mapped. Where the caller
   does not wait, what is not mapped yet is noted for its next call. */
int rd_direct_map(
	struct rd_gpu *gpu, const struct rd_direct_job *job, struct rd_buffer_addresses *addresses);

#endif
