/*
 * Sharers: ranks of a comm that are threads of one process, on one device. They share the device's
 * context in the driver, and its hardware queues, in which a stream that waits holds up those
 * behind it. So they meet in the host while they queue a call: all queue what peers wait for, then
 * all queue their waits. Earlier work then never needs later work, and a thread that locks the
 * driver until a call is done locks no sharer out of queueing that call.
 */
#ifndef RD_SHARERS_H
#define RD_SHARERS_H

#include "gpu/state.h"

/* Sets gpu->sharers where there are others. */
int rd_sharers_join(struct rd_gpu *gpu);
void rd_sharers_leave(struct rd_gpu *gpu);

/* Whether this rank and the peer are sharers. */
bool rd_sharers_has(const struct rd_gpu *gpu, int peer);

/* Waits until all sharers have called it as often. An error: the comm has failed. Returns at once
   where there are no others. */
int rd_sharers_meet(struct rd_gpu *gpu);

/* Before a call is queued: the stream of this rank's part. Meets, and refuses a stream that two
   ranks hand in, on all sharers alike: the one would wait for the other in it. */
int rd_sharers_begin(struct rd_gpu *gpu, void *stream);

/* Transfers: a receive is queued only when its send is. Both return at once where the peer is no
   sharer. await: for one send more from this peer; an error: the comm has failed. */
void rd_sharers_note_send(struct rd_gpu *gpu, int peer);
int rd_sharers_await_send(struct rd_gpu *gpu, int peer);

#endif
