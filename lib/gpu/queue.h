/*
 * Calls that wait in the stream: what their callers have in common. A call is counted, and lies
 * between the flags `ready` and `finished`.
 */
#ifndef RD_QUEUE_H
#define RD_QUEUE_H

#include "gpu/state.h"

/* Operations on flags that are to be posted at once. */
struct rd_flag_batch {
	struct rd_gpu *gpu;
	void *stream;
	int count;
	struct rd_flag_op ops[RD_FLAG_OPS];
};

static inline void rd_batch_write(struct rd_flag_batch *batch, uint32_t *flag, uint32_t value)
{
	batch->ops[batch->count++] = (struct rd_flag_op){ .flag = flag, .value = value };
}

static inline void rd_batch_wait(struct rd_flag_batch *batch, uint32_t *flag, uint32_t value)
{
	batch->ops[batch->count++] =
		(struct rd_flag_op){ .flag = flag, .value = value, .waits = true };
}

/* Posts what there is. */
int rd_batch_post(struct rd_flag_batch *batch);

/* Begins a call that is queued between the flags `ready` and `finished`: counts it as gpu->number,
   and waits until it is less than RD_RUN_AHEAD calls ahead. The caller then writes `ready`. */
int rd_queue_begin(
	struct rd_gpu *gpu, struct rd_device_stream *device_stream, enum rd_queued_kind kind);
/* Ends it after an error: the comm fails, and this waits, within a bound, until the stream has done
   what was queued. Returns the comm's error. */
int rd_queue_fail(struct rd_gpu *gpu, struct rd_device_stream *device_stream, int err);

/* Where work on this stream has its addresses resolved; NULL: nowhere. A comm's work on
   the program's streams runs one after another, and so does that on the gpu's own. */
struct rd_buffer_addresses *rd_queue_resolved(const struct rd_gpu *gpu, const void *stream);

/* Queues a copy by a kernel: of a peer's memory, for it touches nothing once the comm has failed;
   or within host memory, for which the driver's copy would wait. */
int rd_queue_copy(struct rd_gpu *gpu, void *stream, void *to, const void *from, size_t size);

#endif
