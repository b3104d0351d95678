/*
 * The order of a comm's calls on streams: a call runs after the comm's last one. Where that was on
 * another stream, the call's stream follows it.
 */
#ifndef RD_ORDER_H
#define RD_ORDER_H

#include "gpu/state.h"

/* Before a call is queued on the stream. Not while the stream captures. Waits for the last call
   where its stream is being captured now. */
int rd_order(struct rd_gpu *gpu, struct rd_device_stream *device_stream);
/* Whether it can. RONDO_UNSUPPORTED: the host cannot wait for a call that was launched, which
   `finished` does not count. */
int rd_order_check(const struct rd_gpu *gpu, const struct rd_device_stream *device_stream);

#endif
