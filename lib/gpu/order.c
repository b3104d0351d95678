#include "gpu/order.h"

#include "base/error.h"
#include "gpu/watch.h"

int rd_order_check(const struct rd_gpu *gpu, const struct rd_device_stream *device_stream)
{
	if (!gpu->last || gpu->last == device_stream || !gpu->launched ||
		!rd_device_stream_captures(gpu->last) ||
		gpu->ops->stream_captures(device_stream->stream))
		return 0;
	return rd_fail(RONDO_UNSUPPORTED,
		"rank %d: the comm's last call is on another stream, which is being captured: end "
		"the capture first",
		gpu->comm->rank);
}

int rd_order(struct rd_gpu *gpu, struct rd_device_stream *device_stream)
{
	int err = 0;

	if (gpu->last == device_stream)
		return 0;
	if (gpu->last)
		err = rd_device_stream_follow(device_stream->stream, gpu->last);
	if (err == RONDO_UNSUPPORTED && !gpu->launched) {
		rd_gpu_await(gpu, gpu->number);
		err = 0;
	}
	if (err)
		return err;
	rd_device_stream_get(device_stream);
	rd_device_stream_put(gpu->last);
	gpu->last = device_stream;
	return 0;
}
