#include "gpu/order.h"

int rd_order(struct rd_gpu *gpu, struct rd_device_stream *device_stream)
{
	int err = 0;

	if (gpu->last == device_stream)
		return 0;
	if (gpu->last)
		err = rd_device_stream_follow(device_stream->stream, gpu->last);
	if (err)
		return err;
	rd_device_stream_get(device_stream);
	rd_device_stream_put(gpu->last);
	gpu->last = device_stream;
	return 0;
}
