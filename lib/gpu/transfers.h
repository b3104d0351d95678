/*
 * Transfers of device memory between two ranks that map each other's: the receiver reads the
 * sender's buffer. The sender writes an offer to its host flags when it issues the transfer: where
 * the buffer lies, and how long it is. Its stream counts the transfers that it has reached, in the
 * receiver's host flags, and waits until its offers are taken. A receiver waits, in the call, for
 * the sender to have issued the transfer; then it queues a copy by a kernel, between a wait for the
 * sender's stream and a count of what is taken. No rank writes into another's buffers, and the
 * receiver, which copies, has the length of its own buffer. Offers are counted by pairs of ranks
 * and direction, so that no order of transfers in a group can deadlock. Other ranks take no part.
 *
 * Where all ranks are threads of one process, on devices of their own, kernels make the offers, on
 * the device flags, and no host takes part (launch.h).
 *
 * A rank's transfers to itself are copies. A buffer that cannot be mapped is copied to memory that
 * can (exports.h).
 */
#ifndef RD_TRANSFERS_H
#define RD_TRANSFERS_H

#include "gpu/state.h"

/* Queues transfers that run side by side. The first failure ends the comm. */
int rd_transfers_queue(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	struct rd_task *tasks, int count);

/* For transfers that are captured, among processes: the senders offer their buffers. In the
   progress thread. from: where each receive's bytes are, as addressed here. */
int rd_transfers_exchange(struct rd_gpu *gpu, struct rd_task *tasks, int count, const char *from[]);

/* Changes whenever a transfer goes on. */
uint32_t rd_transfers_moved(const struct rd_gpu *gpu);

/* The peer that the stream of transfers waits for; this rank itself: there is none. */
int rd_transfers_missing_peer(const struct rd_gpu *gpu);

#endif
