#include "gpu/launch.h"

#include "gpu/order.h"
#include "gpu/sharers.h"

static int run_kernel(struct rd_gpu *gpu, void *stream, const struct rd_kernel_launch *launch)
{
	const struct rd_device_ops *ops = gpu->ops;
	int err;

	if (launch->work)
		err = ops->run(gpu->device, stream, launch->work);
	else if (launch->small)
		err = ops->run_small(gpu->device, stream, launch->small);
	else if (launch->steps)
		err = ops->run_steps(gpu->device, stream, launch->steps);
	else
		err = ops->run_transfers(gpu->device, stream, launch->transfers);
	if (!err && launch->done)
		err = rd_stream_write(ops, gpu->device, stream, launch->done, launch->number);
	return err;
}

/* Sharers leave only when all kernels are queued: until then nothing may hold up the device. */
static int launch_now(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	const struct rd_kernel_launch *launch)
{
	int err = rd_order(gpu, device_stream);

	if (!err)
		err = rd_sharers_begin(gpu, device_stream->stream);
	if (!err)
		err = run_kernel(gpu, device_stream->stream, launch);
	gpu->launched = true;
	return err ? err : rd_sharers_meet(gpu);
}

int rd_gpu_launch(struct rd_gpu *gpu, struct rd_device_stream *device_stream,
	const struct rd_kernel_launch *launch)
{
	int err = gpu->ops->stream_captures(device_stream->stream)
			  ? run_kernel(gpu, device_stream->stream, launch)
			  : launch_now(gpu, device_stream, launch);

	return err && !atomic_load(&gpu->comm->failed)
		       ? rd_comm_fail(gpu->comm, err, gpu->comm->rank)
		       : err;
}
