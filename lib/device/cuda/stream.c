#include "device/cuda/stream.h"

#include <string.h>

#include "device/cuda/context.h"
#include "base/error.h"

int rd_cuda_stream_create(int device, void **stream)
{
	CUstream made;
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	err = rd_cuda_leave(device, rd_cuda_make_stream(&made), "make a stream");
	if (!err)
		*stream = made;
	return err;
}

void rd_cuda_stream_destroy(int device, void *stream)
{
	if (rd_cuda_enter(device))
		return;
	rd_driver.cuStreamSynchronize(stream);
	rd_cuda_leave(device, rd_driver.cuStreamDestroy(stream), "end a stream");
}

int rd_cuda_stream_synchronize(int device, void *stream)
{
	int err = rd_cuda_enter(device);

	return err ? err
		   : rd_cuda_leave(
			     device, rd_driver.cuStreamSynchronize(stream), "wait for a stream");
}

int rd_cuda_stream_query(int device, void *stream, bool *done)
{
	CUresult result;
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	result = rd_driver.cuStreamQuery(stream);
	*done = result != CUDA_ERROR_NOT_READY;
	return rd_cuda_leave(device, *done ? result : CUDA_SUCCESS, "ask a stream");
}

int rd_cuda_stream_check(int device, void *stream)
{
	CUcontext context;
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	err = rd_cuda_leave(device, rd_driver.cuStreamGetCtx(stream, &context), "use this stream");
	if (!err && context != rd_cuda_device(device)->context)
		err = rd_fail(RONDO_INVALID,
			"this stream is not of device %d, or not of its primary context", device);
	return err;
}

enum rd_capture rd_cuda_stream_captures(void *stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (rd_driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS)
		return RD_CAPTURE_NONE;
	return status == CU_STREAM_CAPTURE_STATUS_ACTIVE        ? RD_CAPTURE_ACTIVE
	       : status == CU_STREAM_CAPTURE_STATUS_INVALIDATED ? RD_CAPTURE_INVALIDATED
								: RD_CAPTURE_NONE;
}

void rd_cuda_ignore_captures(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	if (rd_driver_load() > 0)
		rd_driver.cuThreadExchangeStreamCaptureMode(&mode);
}

int rd_cuda_stream_follow(int device, void *stream, void *earlier)
{
	CUevent event;
	CUresult result;
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	result = rd_driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result == CUDA_SUCCESS) {
		result = rd_driver.cuEventRecord(event, earlier);
		if (result == CUDA_SUCCESS)
			result = rd_driver.cuStreamWaitEvent(stream, event, 0);
		/* It goes when nothing waits for it any more. */
		rd_driver.cuEventDestroy(event);
	}
	return rd_cuda_leave(device, result, "order two streams");
}

int rd_cuda_event_create(int device, void **event)
{
	CUevent made;
	int err = rd_cuda_enter(device);

	if (!err)
		err = rd_cuda_leave(
			device, rd_driver.cuEventCreate(&made, CU_EVENT_DEFAULT), "make an event");
	if (!err)
		*event = made;
	return err;
}

void rd_cuda_event_destroy(int device, void *event)
{
	if (rd_cuda_enter(device) == 0)
		rd_cuda_leave(device, rd_driver.cuEventDestroy(event), "end an event");
}

int rd_cuda_event_record(int device, void *stream, void *event)
{
	int err = rd_cuda_enter(device);

	return err ? err
		   : rd_cuda_leave(
			     device, rd_driver.cuEventRecord(event, stream), "record an event");
}

int rd_cuda_event_elapsed(int device, void *from, void *to, double *us)
{
	CUresult result;
	float ms = 0;
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	result = rd_driver.cuEventSynchronize(from);
	if (result == CUDA_SUCCESS)
		result = rd_driver.cuEventSynchronize(to);
	if (result == CUDA_SUCCESS)
		result = rd_driver.cuEventElapsedTime(&ms, from, to);
	*us = (double)ms * 1e3;
	return rd_cuda_leave(device, result, "time what ran between two events");
}

int rd_cuda_post_flags(int device, void *stream, const struct rd_flag_op *ops, int count)
{
	CUstreamBatchMemOpParams params[RD_FLAG_OPS];
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	memset(params, 0, (size_t)count * sizeof(params[0]));
	for (int i = 0; i < count; i++) {
		/* Both kinds begin alike. */
		params[i].waitValue.operation = ops[i].waits ? CU_STREAM_MEM_OP_WAIT_VALUE_32
							     : CU_STREAM_MEM_OP_WRITE_VALUE_32;
		params[i].waitValue.address = (CUdeviceptr)ops[i].flag;
		params[i].waitValue.value = ops[i].value;
		params[i].waitValue.flags =
			ops[i].waits ? CU_STREAM_WAIT_VALUE_GEQ : CU_STREAM_WRITE_VALUE_DEFAULT;
	}
	return rd_cuda_leave(device,
		rd_driver.cuStreamBatchMemOp(stream, (unsigned)count, params, 0),
		"have a stream wait for flags, or write them");
}

int rd_cuda_copy(int device, void *stream, void *to, const void *from, size_t size)
{
	int err = rd_cuda_enter(device);

	return err ? err
		   : rd_cuda_leave(device,
			     rd_driver.cuMemcpyAsync(
				     (CUdeviceptr)to, (CUdeviceptr)from, size, stream),
			     "copy");
}

/*
 * A stream of its own for each copy would come to any of the device's queues, also to one where a
 * rank's stream waits for the rank that copies.
 */
int rd_cuda_copy_now(int device, void *to, const void *from, size_t size)
{
	CUstream stream;
	CUresult result;
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	stream = rd_cuda_device(device)->stream;
	result = rd_driver.cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, size, stream);
	if (result == CUDA_SUCCESS)
		result = rd_driver.cuStreamSynchronize(stream);
	return rd_cuda_leave(device, result, "copy");
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

/* The context stays current until the end, as it is in a program that captures. */
int rd_cuda_graph_begin(int device, void *stream)
{
	CUresult result;
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	result = rd_driver.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	return result == CUDA_SUCCESS ? 0 : rd_cuda_leave(device, result, "capture a stream");
}

int rd_cuda_graph_end(int device, void *stream, void **graph)
{
	CUgraphExec made = NULL;
	CUgraph captured = NULL;
	CUresult result = rd_driver.cuStreamEndCapture(stream, &captured);
	int err;

	if (result == CUDA_SUCCESS)
		result = rd_driver.cuGraphInstantiate(&made, captured, 0);
	if (captured)
		rd_driver.cuGraphDestroy(captured);
	err = rd_cuda_leave(device, result, "make a graph of what was captured");
	*graph = err ? NULL : made;
	return err;
}

int rd_cuda_graph_launch(int device, void *stream, void *graph)
{
	int err = rd_cuda_enter(device);

	return err ? err
		   : rd_cuda_leave(
			     device, rd_driver.cuGraphLaunch(graph, stream), "launch a graph");
}

void rd_cuda_graph_destroy(int device, void *graph)
{
	if (graph && rd_cuda_enter(device) == 0)
		rd_cuda_leave(device, rd_driver.cuGraphExecDestroy(graph), "end a graph");
}
