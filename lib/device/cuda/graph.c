#include "device/cuda/graph.h"

#include "base/error.h"
#include "device/cuda/driver.h"

/* Makes the device's primary context current, until leave(). */
static int enter(int device)
{
	CUcontext context;
	int err =
		rd_driver_check(driver.cuDevicePrimaryCtxRetain(&context, device), "use a device");

	if (err)
		return err;
	err = rd_driver_check(driver.cuCtxPushCurrent(context), "use a device");
	if (err)
		driver.cuDevicePrimaryCtxRelease(device);
	return err;
}

static int leave(int device, CUresult result, const char *what)
{
	driver.cuCtxPopCurrent(&(CUcontext){ NULL });
	driver.cuDevicePrimaryCtxRelease(device);
	return rd_driver_check(result, what);
}

/* The context stays current until the end, as it is in a program that captures. */
int rd_cuda_graph_begin(int device, void *stream)
{
	CUresult result;
	int err = enter(device);

	if (err)
		return err;
	result = driver.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	return result == CUDA_SUCCESS ? 0 : leave(device, result, "capture a stream");
}

int rd_cuda_graph_end(int device, void *stream, void **graph)
{
	CUgraphExec made = NULL;
	CUgraph captured = NULL;
	CUresult result = driver.cuStreamEndCapture(stream, &captured);
	int err;

	if (result == CUDA_SUCCESS)
		result = driver.cuGraphInstantiate(&made, captured, 0);
	if (captured)
		driver.cuGraphDestroy(captured);
	err = leave(device, result, "make a graph of what was captured");
	*graph = err ? NULL : made;
	return err;
}

int rd_cuda_graph_launch(int device, void *stream, void *graph)
{
	int err = enter(device);

	return err ? err : leave(device, driver.cuGraphLaunch(graph, stream), "launch a graph");
}

void rd_cuda_graph_destroy(int device, void *graph)
{
	if (graph && enter(device) == 0)
		leave(device, driver.cuGraphExecDestroy(graph), "end a graph");
}
