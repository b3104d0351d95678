/*
 * Transfers of device memory between two ranks that map each other's: the receiver reads the
 * sender's buffer. When its stream has reached the transfer, the sender writes an offer to its host
 * flags: where the buffer lies, and how long it is. The receiver copies it by a kernel, and counts
 * it as taken in the sender's host flags. So each of the two waits for one flag. No rank writes
 * into another's buffers, and the receiver, which copies, has the length of its own buffer. Offers
 * are counted by pairs of ranks; other ranks take no part.
 *
 * Where all ranks are threads of one process and fused, kernels make the offers, on the device
 * flags, and no host takes part (launch_transfers.h).
 *
 * A rank's transfers to itself are copies. A buffer that cannot be mapped is staged: its offer is
 * marked so.
 */
#ifndef RD_TRANSFERS_H
#define RD_TRANSFERS_H

#include "gpu/gpu.h"
#include "gpu/staging.h"

/* Runs issued transfers, side by side, in the progress thread. On return the host has done its
   part, and the rest is queued on the gpu's stream. The first failure ends the comm. *stage: as in
   rd_stage_run(). */
int rd_transfers_run(struct rd_stage **stage, struct rd_gpu *gpu, struct rd_task *tasks, int count);

/* For transfers that are captured, among processes: the senders offer their buffers.
   from: where each receive's bytes are, as addressed here. In the progress thread, too. */
int rd_transfers_exchange(struct rd_stage **stage, struct rd_gpu *gpu, struct rd_task *tasks,
	int count, const char *from[]);

/* A peer that has not taken what it was offered; this rank itself: there is none. */
int rd_transfers_missing_peer(const struct rd_gpu *gpu);

#endif
