/* Streams, graphs and events of the emulated driver. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/futex.h"
#include "state.h"
#include "worker.h"

/* How often it was recorded, and has been reached since; and when. */
struct CUevent_st {
	bool captured; /* what it was recorded in */
	uint32_t recorded, passed;
	double seconds;
	_Atomic int holders;
};

#define GREATEST_PRIORITY (-5)

static _Thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* Priorities change no order here. */
EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = GREATEST_PRIORITY;
	return done(current() < 0);
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
	if (current() < 0 || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (priority > 0 || priority < GREATEST_PRIORITY)
		return CUDA_ERROR_INVALID_VALUE;
	*stream = worker_create(current());
	if (!*stream || stream_add(*stream, priority))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return done(0);
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
	return cuStreamCreateWithPriority(stream, flags, 0);
}

EXPORT CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
	int queue;

	return done(!stream_find(stream, &queue, priority));
}

EXPORT CUresult cuStreamDestroy(CUstream stream)
{
	if (current() < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	stream_remove(stream);
	worker_destroy(stream);
	return done(0);
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	return done(!worker_synchronize(stream));
}

EXPORT CUresult cuStreamQuery(CUstream stream)
{
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	return worker_is_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*context = context_of(worker_device(stream));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*status = worker_captures(stream);
	return done(0);
}

struct call {
	CUhostFn function;
	void *argument;
};

static void run_call(const void *what)
{
	const struct call *call = what;

	call->function(call->argument);
}

int queue_call(CUstream stream, CUhostFn function, void *argument)
{
	const struct call call = { function, argument };

	return worker_run(stream, run_call, &call, sizeof(call));
}

EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument)
{
	struct item *item;
	CUresult result;

	/* Nothing is queued, so the caller may free the argument after this error. */
	if (is_lost())
		return CUDA_ERROR_LAUNCH_FAILED;
	result = item_begin(stream, ITEM_OTHER, &item);
	if (result == CUDA_SUCCESS)
		item_end(item, queue_call(stream, function, argument));
	return result;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before = capture_mode;

	capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
	return done(mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL || worker_capture(stream));
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	return done(worker_capture_end(stream, graph));
}

/* A graph that can be run is the graph. */
EXPORT CUresult cuGraphInstantiateWithFlags(
	CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	*exec = (CUgraphExec)graph;
	return done(flags != 0);
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	struct item *item;
	CUresult result = item_begin(stream, ITEM_KERNEL, &item);

	return result ? result : item_end(item, worker_replay(stream, (CUgraph)exec));
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	graph_destroy((CUgraph)exec);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
	(void)graph;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
	*event = calloc(1, sizeof(**event));
	if (*event)
		(*event)->holders = 1;
	return done(current() < 0 || flags & ~(unsigned)CU_EVENT_DISABLE_TIMING || !*event);
}

static void let_go(CUevent event)
{
	if (atomic_fetch_sub(&event->holders, 1) == 1)
		free(event);
}

static void let_go_of(void *event)
{
	let_go(event);
}

static void pass(void *argument)
{
	CUevent event = argument;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	event->seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
	rd_flag_write(&event->passed, event->passed + 1);
	let_go(event);
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	CUresult result;

	event->captured = worker_captures(stream);
	atomic_fetch_add(&event->holders, 1);
	result = cuLaunchHostFunc(stream, pass, event);
	if (result == CUDA_SUCCESS)
		event->recorded++;
	else
		let_go(event);
	return result;
}

/* One that was never recorded has nothing to wait for. */
EXPORT CUresult cuEventSynchronize(CUevent event)
{
	while (!rd_flag_reached(&event->passed, event->recorded)) {
		uint32_t seen = __atomic_load_n(&event->passed, __ATOMIC_ACQUIRE);

		if (!rd_flag_reached(&event->passed, event->recorded))
			rd_flag_sleep(&event->passed, seen, 1000000);
	}
	return done(0);
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
	if (!from->recorded || !to->recorded || !rd_flag_reached(&from->passed, from->recorded) ||
		!rd_flag_reached(&to->passed, to->recorded))
		return CUDA_ERROR_NOT_READY;
	*ms = (float)(1e3 * (to->seconds - from->seconds));
	return done(0);
}

/* A capture is of one stream alone. */
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	struct item *item;
	CUresult result;
	int err;

	if (flags || event->captured || worker_captures(stream))
		return CUDA_ERROR_INVALID_VALUE;
	result = item_begin(stream, ITEM_WAIT, &item);
	if (result)
		return result;
	atomic_fetch_add(&event->holders, 1);
	err = worker_wait(stream, &event->passed, event->recorded);
	if (err || queue_call(stream, let_go_of, event))
		let_go(event);
	return item_end(item, err);
}

EXPORT CUresult cuEventDestroy(CUevent event)
{
	let_go(event);
	return CUDA_SUCCESS;
}

/* Waits and writes of flags in one call: CUDA takes fewer than this. */
#define MEM_OPS_MAX 256

static bool is_mem_op(const CUstreamBatchMemOpParams *op)
{
	if (op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32)
		return op->waitValue.flags == CU_STREAM_WAIT_VALUE_GEQ &&
		       is_pinned((void *)op->waitValue.address);
	return op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 && !op->writeValue.flags &&
	       is_pinned((void *)op->writeValue.address);
}

static int queue_mem_op(CUstream stream, const CUstreamBatchMemOpParams *op)
{
	return op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32
		       ? worker_wait(stream, (uint32_t *)op->waitValue.address, op->waitValue.value)
		       : worker_write(
				 stream, (uint32_t *)op->writeValue.address, op->writeValue.value);
}

/* Queues none where one of them is wrong. */
EXPORT CUresult cuStreamBatchMemOp(
	CUstream stream, unsigned count, CUstreamBatchMemOpParams *ops, unsigned flags)
{
	struct item *item;
	CUresult result;
	bool waits = false;
	int err = 0;

	if (flags || count >= MEM_OPS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		if (!is_mem_op(&ops[i]))
			return CUDA_ERROR_INVALID_VALUE;
		waits |= ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
	}
	result = item_begin(stream, waits ? ITEM_WAIT : ITEM_OTHER, &item);
	if (result)
		return result;
	for (unsigned i = 0; i < count && !err; i++)
		err = queue_mem_op(stream, &ops[i]);
	return item_end(item, err);
}

EXPORT CUresult cuStreamWaitValue32(
	CUstream stream, CUdeviceptr flag, cuuint32_t value, unsigned flags)
{
	CUstreamBatchMemOpParams op = { .waitValue = {
						.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
						.address = flag,
						.value = value,
						.flags = flags,
					} };

	return cuStreamBatchMemOp(stream, 1, &op, 0);
}

EXPORT CUresult cuStreamWriteValue32(
	CUstream stream, CUdeviceptr flag, cuuint32_t value, unsigned flags)
{
	CUstreamBatchMemOpParams op = { .writeValue = {
						.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
						.address = flag,
						.value = value,
						.flags = flags,
					} };

	return cuStreamBatchMemOp(stream, 1, &op, 0);
}
