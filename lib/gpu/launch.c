#include "gpu/launch.h"

static int run_kernel(struct rd_gpu *gpu, void *stream, const struct rd_launch *launch)
{
	const struct rd_device_ops *ops = gpu->ops;

	if (launch->work)
		return ops->run(gpu->device, stream, launch->work);
	if (launch->steps)
		return ops->run_steps(gpu->device, stream, launch->steps);
	return ops->run_transfers(gpu->device, stream, launch->transfers);
}

int rd_gpu_launch(
	struct rd_gpu *gpu, struct rd_device_stream *device_stream, const struct rd_launch *launch)
{
	const struct rd_device_ops *ops = gpu->ops;
	bool captures = ops->stream_captures(device_stream->stream);
	int err = 0;

	if (!captures)
		err = ops->stream_follow(gpu->device, device_stream->stream, gpu->chain);
	if (!err)
		err = run_kernel(gpu, device_stream->stream, launch);
	if (!err && launch->done)
		err = ops->write_flag(
			gpu->device, device_stream->stream, launch->done, launch->number);
	if (!err && !captures)
		err = ops->stream_follow(gpu->device, gpu->chain, device_stream->stream);
	return err ? rd_comm_fail(gpu->comm, err, gpu->comm->rank) : 0;
}
