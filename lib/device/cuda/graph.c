#include "device/cuda/graph.h"

#include "device/cuda/context.h"

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
