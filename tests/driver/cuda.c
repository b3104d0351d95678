/*
 * An emulated libcuda.so.1, on top of the emulated GPUs: what lib/device/cuda/cuda.c and
 * train/cuda/cuda.c ask of the driver is done by lib/device/emulated/emulated.c, and what they get
 * wrong (a context that is not current, a word that was never registered, a kernel of another type)
 * is an error. So all of both runs in tests; their kernels as threads (kernels.cc, train.cc).
 *
 * Code is loaded late, as CUDA does: what runs for the first time waits until nothing else runs,
 * and meanwhile nothing can be queued. When that takes too long it is an error. So it is with the
 * context's lock, which others report of CUDA: a copy from or to pageable memory holds it while it
 * waits for its stream, and cuMemAllocHost() and cuMemFreeHost() while they wait for the device.
 *
 * EMULATED_LAUNCHES=N: the device is lost after so many kernels. EMULATED_MPS=1: MPS is active.
 * EMULATED_CAPABILITY=9.0,7.5: the compute capability of each device, and the last one's of those
 * after.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/device.h"
#include "device/emulated/emulated.h"
#include "emulated_driver.h"
#include "base/futex.h"

#define EXPORT __attribute__((visibility("default")))
/* As many as there are, where EMULATED_TOPOLOGY does not name a topology file. */
#define DEVICES 2
#define DEVICES_MAX 32
#define DEPTH 8
#define SHARED_MAX 1024
#define STREAMS_MAX 64
#define LOADING_MS 5000

struct CUctx_st {
	int device;
	pthread_mutex_t lock; /* whoever queues something takes it for a moment */
};

/* Where the stream was recorded last; how often it was, and has got there since; and when. */
struct CUevent_st {
	void *stream;
	uint32_t recorded, passed;
	double seconds;
	_Atomic int holders;
};

/* One of the library's, for a type, or one of the trainer's. */
struct CUfunc_st {
	int type;
	bool steps, transfers; /* else work */
	bool loaded;
	int own; /* 1 + the number of the trainer's */
};

static struct CUctx_st contexts[DEVICES_MAX];
static struct CUfunc_st kernels[2][RONDO_TYPE_COUNT], transfers = { .transfers = true };
static bool retained[DEVICES_MAX], started;
static _Thread_local CUcontext stack[DEPTH];
static _Thread_local int depth;
static _Thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	char *at;
	size_t size;
} shared[SHARED_MAX];

/* Kernels that may still be launched before the device is lost; negative: any number. */
static _Atomic int launches_left = -1;

static bool is_lost(void)
{
	return launches_left == 0;
}

static CUresult done(int err)
{
	if (is_lost())
		return CUDA_ERROR_LAUNCH_FAILED;
	return err ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* -1: no context is current. */
static int current(void)
{
	return depth > 0 ? stack[depth - 1]->device : -1;
}

/* ---- The driver and its devices ------------------------------------------------------------ */

EXPORT CUresult cuInit(unsigned flags)
{
	const char *launches = getenv("EMULATED_LAUNCHES");
	const char *topology = getenv("EMULATED_TOPOLOGY");
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	if (launches && !started)
		launches_left = atoi(launches);
	/* As on a machine with none. */
	if (visible && !*visible)
		return CUDA_ERROR_NO_DEVICE;
	started = flags == 0;
	for (int device = 0; device < DEVICES_MAX; device++)
		contexts[device].device = device;
	rd_emulated_set(DEVICES, true);
	return done(flags || (topology && rd_emulated_load(topology)));
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
	*version = CUDA_VERSION;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
	*text = error == CUDA_ERROR_INVALID_CONTEXT ? "no context is current"
		: error == CUDA_ERROR_LAUNCH_FAILED ? "the emulated device is lost"
		: error == CUDA_ERROR_LAUNCH_TIMEOUT
			? "code was to be loaded while streams wait for another"
		: error == CUDA_ERROR_TIMEOUT
			? "a call waits with the context's lock for streams that wait for another"
		: error == CUDA_ERROR_NO_BINARY_FOR_GPU ? "there are no kernels for this device"
							: "the emulated driver refuses";
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return done(!started || ordinal < 0 || ordinal >= rd_emulated_count());
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	*count = rd_emulated_count();
	return done(!started);
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
	strncpy(name, "emulated GPU", (size_t)size);
	return done(device < 0 || device >= rd_emulated_count());
}

/* Ten times it: 90. */
static int capability(CUdevice device)
{
	const char *text = getenv("EMULATED_CAPABILITY");

	if (!text)
		return 90;
	for (const char *next; device > 0 && (next = strchr(text, ',')); device--)
		text = next + 1;
	return (int)(10 * strtod(text, NULL) + 0.5);
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	*value = 0;
	if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
		*value = 4;
	if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
		*value = capability(device) / 10;
	if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
		*value = capability(device) % 10;
	if (attribute == CU_DEVICE_ATTRIBUTE_MPS_ENABLED)
		*value = getenv("EMULATED_MPS") != NULL;
	if (attribute == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)
		*value = (int)(rd_emulated_pci(device) >> 16);
	if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
		*value = (int)(rd_emulated_pci(device) >> 8 & 0xff);
	return done(device < 0 || device >= rd_emulated_count());
}

EXPORT CUresult cuDeviceCanAccessPeer(int *able, CUdevice device, CUdevice peer)
{
	*able = device != peer && rd_emulated_reach(device, peer) == 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	if (device < 0 || device >= rd_emulated_count())
		return CUDA_ERROR_INVALID_DEVICE;
	retained[device] = true;
	*context = &contexts[device];
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	return done(device < 0 || device >= rd_emulated_count() || !retained[device]);
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context)
{
	*context = depth > 0 ? stack[depth - 1] : NULL;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
	if (!retained[context->device])
		return CUDA_ERROR_INVALID_CONTEXT;
	depth = depth > 0 ? depth : 1;
	stack[depth - 1] = context;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = current();
	return current() < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent(CUcontext context)
{
	if (depth == DEPTH || !retained[context->device])
		return CUDA_ERROR_INVALID_CONTEXT;
	stack[depth++] = context;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent(CUcontext *context)
{
	if (depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	*context = stack[--depth];
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	return done(flags || current() < 0 || peer->device == current());
}

/* ---- Pinned memory ------------------------------------------------------------------------- */

static CUresult note_pinned(void *memory, size_t size)
{
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < SHARED_MAX && result; i++) {
		if (shared[i].at)
			continue;
		shared[i].at = memory;
		shared[i].size = size;
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult forget_pinned(void *memory)
{
	CUresult result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < SHARED_MAX && result; i++) {
		if (shared[i].at != memory)
			continue;
		shared[i].at = NULL;
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static bool is_shared(const void *at)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < SHARED_MAX && !found; i++)
		found = shared[i].at && (const char *)at >= shared[i].at &&
			(const char *)at < shared[i].at + shared[i].size;
	pthread_mutex_unlock(&lock);
	return found;
}

/* ---- Locks --------------------------------------------------------------------------------- */

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static CUstream streams[STREAMS_MAX];

/* Before something is queued: not while another thread loads, or waits with the context's lock. */
static void let_load(void)
{
	pthread_mutex_lock(&driver_lock);
	pthread_mutex_unlock(&driver_lock);
	if (current() < 0)
		return;
	pthread_mutex_lock(&stack[depth - 1]->lock);
	pthread_mutex_unlock(&stack[depth - 1]->lock);
}

static void note_stream(CUstream before, CUstream after)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < STREAMS_MAX; i++)
		if (streams[i] == before) {
			streams[i] = after;
			break;
		}
	pthread_mutex_unlock(&lock);
}

static void pass_flag(void *flag)
{
	rd_flag_write(flag, 1);
}

/* Until all that is queued there has run, or too long. */
static bool runs_dry(CUstream stream)
{
	static uint32_t flags[STREAMS_MAX];
	static _Atomic int turn;
	uint32_t *flag = &flags[turn++ % STREAMS_MAX];
	struct rd_work work = {
		.type = EMULATED_CALL, .in = { (const char *)pass_flag }, .out = { (char *)flag }
	};

	*flag = 0;
	if (rd_emulated.run(current(), stream, &work))
		return false;
	for (int ms = 0; ms < LOADING_MS && !rd_flag_reached(flag, 1); ms++)
		rd_flag_sleep(flag, 0, 1000000);
	return rd_flag_reached(flag, 1);
}

static bool all_run_dry(void)
{
	CUstream running[STREAMS_MAX];
	bool dry = true;

	pthread_mutex_lock(&lock);
	memcpy(running, streams, sizeof(running));
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < STREAMS_MAX && dry; i++)
		dry = !running[i] || runs_dry(running[i]);
	return dry;
}

EXPORT int emulated_load(void)
{
	bool dry;

	pthread_mutex_lock(&driver_lock);
	dry = all_run_dry();
	pthread_mutex_unlock(&driver_lock);
	return !dry;
}

/* Holds the context's lock until the device has nothing to do. */
static bool wait_for_device(void)
{
	bool dry;

	pthread_mutex_lock(&stack[depth - 1]->lock);
	dry = all_run_dry();
	pthread_mutex_unlock(&stack[depth - 1]->lock);
	return dry;
}

/* ---- Memory -------------------------------------------------------------------------------- */

EXPORT CUresult cuMemAlloc(CUdeviceptr *memory, size_t size)
{
	if (current() < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	return done(rd_emulated.alloc(current(), size, (void **)memory));
}

EXPORT CUresult cuMemFree(CUdeviceptr memory)
{
	/* What is queued on a lost device may still come to it. */
	if (is_lost())
		return CUDA_ERROR_LAUNCH_FAILED;
	return current() < 0 ? CUDA_ERROR_INVALID_CONTEXT : done(rd_emulated.free((void *)memory));
}

EXPORT CUresult cuMemsetD8(CUdeviceptr memory, unsigned char byte, size_t size)
{
	memset((void *)memory, byte, size);
	return done(current() < 0);
}

EXPORT CUresult cuMemAllocHost(void **memory, size_t size)
{
	*memory = NULL;
	if (current() < 0 || is_lost())
		return done(1);
	if (!wait_for_device())
		return CUDA_ERROR_TIMEOUT;
	*memory = malloc(size);
	return *memory ? note_pinned(*memory, size) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Of a lost device: so that no tool takes it for a leak. */
EXPORT void *emulated_kept[16];

EXPORT CUresult cuMemFreeHost(void *memory)
{
	if (is_lost()) {
		for (int i = 0; i < 16 && memory; i++)
			if (!emulated_kept[i]) {
				emulated_kept[i] = memory;
				memory = NULL;
			}
		return CUDA_ERROR_LAUNCH_FAILED;
	}
	if (current() < 0 || !wait_for_device())
		return current() < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_TIMEOUT;
	if (forget_pinned(memory))
		return CUDA_ERROR_INVALID_VALUE;
	free(memory);
	return CUDA_SUCCESS;
}

struct fill {
	void *at;
	unsigned char byte;
	size_t size;
};

static void fill_now(void *argument)
{
	struct fill *fill = argument;

	memset(fill->at, fill->byte, fill->size);
	free(fill);
}

EXPORT CUresult cuMemsetD8Async(
	CUdeviceptr memory, unsigned char byte, size_t size, CUstream stream)
{
	struct fill *fill = malloc(sizeof(*fill));

	if (!fill)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*fill = (struct fill){ (void *)memory, byte, size };
	return cuLaunchHostFunc(stream, fill_now, fill);
}

static bool is_pageable(CUdeviceptr at)
{
	struct rd_allocation allocation;

	return !is_shared((void *)at) && !rd_emulated.find((void *)at, &allocation);
}

/* Holds the context's lock from before the stream's earlier work is done until the copy is. */
static CUresult copy_pageable(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&stack[depth - 1]->lock);
	if (!runs_dry(stream))
		result = CUDA_ERROR_TIMEOUT;
	else if (rd_emulated.copy(current(), stream, (void *)to, (void *)from, size) ||
		 !runs_dry(stream))
		result = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&stack[depth - 1]->lock);
	return result ? result : done(0);
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	if (current() < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	let_load();
	if ((is_pageable(to) || is_pageable(from)) && !rd_emulated_stream_captures(stream))
		return copy_pageable(to, from, size, stream);
	return done(rd_emulated.copy(current(), stream, (void *)to, (void *)from, size));
}

EXPORT CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr at)
{
	struct rd_allocation allocation;

	if (!rd_emulated.find((void *)at, &allocation))
		return CUDA_ERROR_NOT_FOUND;
	*base = (CUdeviceptr)allocation.base;
	*size = allocation.size;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerGetAttributes(
	unsigned count, CUpointer_attribute *attributes, void **values, CUdeviceptr at)
{
	struct rd_allocation allocation = { .device = -1 };
	bool found = rd_emulated.find((void *)at, &allocation);

	for (unsigned i = 0; i < count; i++)
		switch (attributes[i]) {
		case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
			*(unsigned *)values[i] = found                   ? CU_MEMORYTYPE_DEVICE
						 : is_shared((void *)at) ? CU_MEMORYTYPE_HOST
									 : 0;
			break;
		case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
			*(int *)values[i] = allocation.device;
			break;
		case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
			*(void **)values[i] = allocation.base;
			break;
		case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
			*(size_t *)values[i] = allocation.size;
			break;
		case CU_POINTER_ATTRIBUTE_BUFFER_ID:
			*(unsigned long long *)values[i] = allocation.id;
			break;
		default:
			return CUDA_ERROR_INVALID_VALUE;
		}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr at)
{
	unsigned type = 0;
	void *answer = attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? &type : value;

	if (cuPointerGetAttributes(1, &attribute, &answer, at) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (answer == &type)
		*(unsigned *)value = type;
	return answer == &type && type == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr memory)
{
	struct rd_handle made;
	int err = rd_emulated.export((void *)memory, &made);

	memcpy(handle, &made, sizeof(*handle));
	return done(err || current() < 0);
}

EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *memory, CUipcMemHandle handle, unsigned flags)
{
	struct rd_handle theirs;
	size_t size;

	memcpy(&theirs, &handle, sizeof(theirs));
	if (current() < 0 || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	return done(rd_emulated.import(current(), &theirs, (void **)memory, &size));
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr memory)
{
	rd_emulated.drop(current(), (void *)memory);
	return done(current() < 0);
}

EXPORT CUresult cuMemHostRegister(void *memory, size_t size, unsigned flags)
{
	if (current() < 0 || !(flags & CU_MEMHOSTREGISTER_PORTABLE))
		return CUDA_ERROR_INVALID_CONTEXT;
	return note_pinned(memory, size);
}

EXPORT CUresult cuMemHostUnregister(void *memory)
{
	return forget_pinned(memory);
}

EXPORT CUresult cuMemHostGetDevicePointer(CUdeviceptr *seen, void *memory, unsigned flags)
{
	*seen = (CUdeviceptr)memory;
	return done(flags || !is_shared(memory));
}

/* ---- Streams and events -------------------------------------------------------------------- */

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
	if (current() < 0 || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (rd_emulated.stream_create(current(), (void **)stream))
		return CUDA_ERROR_OUT_OF_MEMORY;
	note_stream(NULL, *stream);
	return done(0);
}

EXPORT CUresult cuStreamDestroy(CUstream stream)
{
	note_stream(stream, NULL);
	rd_emulated.stream_destroy(current(), stream);
	return done(current() < 0);
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
	/* The null stream's work is done at once here. */
	return stream ? done(rd_emulated.stream_synchronize(current(), stream)) : CUDA_SUCCESS;
}

EXPORT CUresult cuStreamQuery(CUstream stream)
{
	bool is_done = true;

	if (stream && rd_emulated.stream_query(current(), stream, &is_done))
		return CUDA_ERROR_INVALID_VALUE;
	return is_done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	for (int device = 0; device < rd_emulated_count(); device++)
		if (rd_emulated.stream_check(device, stream) == 0) {
			*context = &contexts[device];
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	*status = rd_emulated_stream_captures(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE
						      : CU_STREAM_CAPTURE_STATUS_NONE;
	return done(!stream);
}

/* Of an emulated device: work whose type is none is a call. */
EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument)
{
	struct rd_work work = {
		.type = EMULATED_CALL, .in = { (const char *)function }, .out = { argument }
	};

	if (current() < 0 || !stream)
		return CUDA_ERROR_INVALID_CONTEXT;
	let_load();
	/* Nothing is queued, so whoever hears of it may free the argument. */
	if (is_lost())
		return CUDA_ERROR_LAUNCH_FAILED;
	return rd_emulated.run(current(), stream, &work) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
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
	return done(mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL || rd_emulated_capture(stream));
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	return done(rd_emulated_capture_end(stream, (struct rd_emulated_graph **)graph));
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
	let_load();
	return done(rd_emulated_replay((struct rd_emulated_graph *)exec, stream));
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	rd_emulated_graph_destroy((struct rd_emulated_graph *)exec);
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

	event->stream = stream;
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

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	let_load();
	return done(flags || rd_emulated.stream_follow(current(), stream, event->stream));
}

EXPORT CUresult cuEventDestroy(CUevent event)
{
	let_go(event);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWaitValue32(
	CUstream stream, CUdeviceptr flag, cuuint32_t value, unsigned flags)
{
	let_load();
	if (current() < 0 || flags != CU_STREAM_WAIT_VALUE_GEQ || !is_shared((void *)flag))
		return CUDA_ERROR_INVALID_VALUE;
	return done(rd_emulated.wait_flag(current(), stream, (uint32_t *)flag, value));
}

EXPORT CUresult cuStreamWriteValue32(
	CUstream stream, CUdeviceptr flag, cuuint32_t value, unsigned flags)
{
	let_load();
	if (current() < 0 || flags || !is_shared((void *)flag))
		return CUDA_ERROR_INVALID_VALUE;
	return done(rd_emulated.write_flag(current(), stream, (uint32_t *)flag, value));
}

/* ---- Kernels ------------------------------------------------------------------------------- */

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	if (current() >= 0 && capability(current()) < 80)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	/* Of a fatbin's beginning. */
	*module = (CUmodule)kernels;
	return done(current() < 0 || *(const uint32_t *)image != 0xba55ed50);
}

/* Whichever module it is asked of has all kernels. */
EXPORT CUresult cuModuleGetFunction(CUfunction *kernel, CUmodule module, const char *name)
{
	static const char *const kinds[] = { "work", "steps" };
	static struct CUfunc_st own[EMULATED_KERNELS];
	int number = emulated_find(name);
	char known[32];

	if ((void *)module != kernels)
		return CUDA_ERROR_INVALID_VALUE;
	if (number >= 0) {
		own[number].own = 1 + number;
		*kernel = &own[number];
		return done(0);
	}
	if (strcmp(name, "rondo_transfers") == 0) {
		*kernel = &transfers;
		return done(0);
	}
	for (int kind = 0; kind < 2; kind++)
		for (int type = 0; type < RONDO_TYPE_COUNT; type++) {
			snprintf(known, sizeof(known), "rondo_%s_%s", kinds[kind],
				rondo_type_name(type));
			if (strcmp(name, known) != 0)
				continue;
			kernels[kind][type] = (struct CUfunc_st){ .type = type, .steps = kind };
			*kernel = &kernels[kind][type];
			return done(0);
		}
	return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
	return done((void *)module != kernels);
}

EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction kernel)
{
	kernel->loaded = true;
	*value = 56;
	return done(!kernel || attribute != CU_FUNC_ATTRIBUTE_NUM_REGS);
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *blocks, CUfunction kernel, int threads, size_t memory)
{
	*blocks = 1;
	return done(!kernel || threads != 512 || memory);
}

EXPORT CUresult cuLaunchKernel(CUfunction kernel, unsigned grid, unsigned grid_y, unsigned grid_z,
	unsigned block, unsigned block_y, unsigned block_z, unsigned memory, CUstream stream,
	void **parameters, void **extra)
{
	const struct rd_work *work = parameters[0];
	const struct rd_steps *steps = parameters[0];
	const struct rd_transfer_work *moves = parameters[0];

	if (launches_left > 0)
		launches_left--;
	if (is_lost())
		return CUDA_ERROR_LAUNCH_FAILED;
	if (current() < 0 || grid < 1 || grid_y != 1 || grid_z != 1 ||
		block != (kernel->own ? 256 : 512) || block_y != 1 || block_z != 1 || memory ||
		extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (!kernel->loaded && emulated_load())
		return CUDA_ERROR_LAUNCH_TIMEOUT;
	kernel->loaded = true;
	let_load();
	if (kernel->own)
		return cuLaunchHostFunc(
			stream, emulated_run, emulated_bind(kernel->own - 1, grid, parameters));
	if (kernel->steps) {
		if (steps->type != kernel->type || (int)grid != steps->channels ||
			!is_shared(steps->abort_flag))
			return CUDA_ERROR_INVALID_VALUE;
		return done(rd_emulated.run_steps(current(), stream, steps));
	}
	if (kernel->transfers) {
		if ((int)grid != moves->blocks || !is_shared(moves->abort_flag) ||
			(moves->more && !is_shared(moves->more)))
			return CUDA_ERROR_INVALID_VALUE;
		return done(rd_emulated.run_transfers(current(), stream, moves));
	}
	/* Fused kernels of all ranks on a device must find room on it. */
	if (work->type != kernel->type || (work->fused && (int)grid != work->blocks) ||
		!is_shared(work->abort_flag))
		return CUDA_ERROR_INVALID_VALUE;
	return done(rd_emulated.run(current(), stream, work));
}
