/*
 * Transfers of device memory between two ranks that reach each other's: the receiver reads the
 * sender's buffer. The sender says on its host flags, when its stream has come so far, what it offers and
 * where; the receiver copies that, by a kernel, and counts it in the sender's host flags as taken. So the
 * receiver waits for one flag and the sender for one, nothing is written into another rank's
 * buffers, and who copies is who knows how much room there is. Offers are counted by pairs of
 * ranks, of which no other rank hears.
 *
 * Where all ranks are threads of one process and fused, kernels make the offers, on the device flags, and
 * no host takes part (transfer_work.h).
 *
 * A rank's transfers to itself are copies. What cannot be reached is staged: the offer says so.
 */
#ifndef RD_TRANSFERS_H
#define RD_TRANSFERS_H

#include "gpu/gpu.h"
#include "device/device_stream.h"
#include "gpu/staging.h"

/* Runs issued transfers, side by side, in the progress thread's thread. On return the host has done its part,
   and what is left to do, or to wait for, is queued on the gpu's stream. The first failure ends
   the comm. *stage: as in rd_stage_run(). */
int rd_transfers_run(
	struct rd_stage **stage, struct rd_gpu *gpu, struct rd_task *tasks, int count);

/* For transfers that are captured, among processes: has both ranks of each tell each other where it
   lies. from: where each receive's bytes are, as addressed here. The same thread's. */
int rd_transfers_exchange(struct rd_stage **stage, struct rd_gpu *gpu, struct rd_task *tasks,
	int count, const char *from[]);

/* Queues transfers as one kernel on the caller's stream; from: as above, or NULL where peers'
   kernels say it. In the caller's thread. */
int rd_transfers_launch(struct rd_gpu *gpu, struct rd_device_stream *device_stream, struct rd_task *tasks,
	int count, const char *const from[]);

/* When all that was launched has run. */
void rd_transfers_forget(struct rd_gpu *gpu);

/* A peer that has not taken what it was offered; this rank itself: there is none. */
int rd_transfers_owed(const struct rd_gpu *gpu);

#endif
