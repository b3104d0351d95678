/* The launch of one kernel on a caller's stream. */
#ifndef RD_LAUNCH_H
#define RD_LAUNCH_H

#include "gpu/state.h"

/* One kernel: that of the member that is not NULL. */
struct rd_kernel_launch {
	const struct rd_work *work;
	const struct rd_small_work *small;
	const struct rd_steps *steps;
	const struct rd_transfer_work *transfers;
	uint32_t *done, number; /* done: what is written when it has run, or NULL */
};

/* Queues it on the caller's stream, after what earlier calls on other streams have queued. */
int rd_gpu_launch(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	const struct rd_kernel_launch *launch);

/* The launch of a group's transfers as one kernel on the caller's stream (transfer_work.h). */

/* Queues the kernel. from: where each receive's bytes are, as addressed here, or NULL where peers'
   kernels make the offers. In the caller's thread. */
int rd_transfers_launch(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *tasks, int count, const char *const from[]);

/* Makes the lists of long groups. */
int rd_transfers_make_lists(struct rd_gpu *gpu);
/* Frees the lists of long groups, when all that was launched has run. */
void rd_transfers_free_lists(struct rd_gpu *gpu);

/* ---- Order ----------------------------------------------------------------------------------- */

/*
 * The order of a comm's calls on streams: a call runs after the comm's last one. Where that was on
 * another stream, the call's stream follows it.
 */

/* Before a call is queued on the stream. Not while the stream captures. Waits for the last call
   where its stream is being captured now. */
int rd_order(struct rd_gpu *gpu, struct rd_device_stream *device_stream);
/* Whether it can. RONDO_UNSUPPORTED: the host cannot wait for a call that was launched, which
   `finished` does not count. */
int rd_order_check(const struct rd_gpu *gpu, const struct rd_device_stream *device_stream);

#endif
