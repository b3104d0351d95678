/*
 * A libcuda.so.1 whose GPUs are threads (worker.h) and memfds (allocations.h). It serves the calls
 * of lib/device/cuda and train/device/cuda, and returns an error for wrong ones (a context that is
 * not current, a flag that was never registered, a kernel of another type). Kernels run as
 * coroutines (kernels.cc, plans.cc, transfers.cc, train.cc). Here are the driver and its devices.
 *
 * Code is loaded late, as CUDA does: a kernel's first launch waits until nothing else runs, and
 * nothing can be queued meanwhile. A wait that takes too long is an error. The same holds for the
 * context's lock, as CUDA's users report: a copy from or to pageable memory, or within host memory,
 * holds it while it waits for its stream, and cuMemFree(), cuMemAllocHost() and cuMemFreeHost()
 * while they wait for the device. Queues are bounded (queues.h), and so is the room for blocks
 * (room.h).
 *
 * The null stream is not there: neither the library nor the trainer uses it.
 *
 * EMULATED_GPUS=N: so many devices; N,no-handles: of memory that no other process can map;
 * FILE.json: those of a host in a topology file (gpus.h). Without it there are 2.
 * EMULATED_LAUNCHES=N: the device is lost after N kernels. EMULATED_MPS=1: MPS is active.
 * EMULATED_CAPABILITY=9.0,7.5: the compute capability of each device; further devices have the
 * last one's.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "gpus.h"
#include "room.h"
#include "state.h"

#define DEPTH 8

static struct CUctx_st contexts[DEVICES_MAX];
static atomic_bool retained[DEVICES_MAX];
static bool started;
static _Thread_local CUcontext stack[DEPTH];
static _Thread_local int depth;

/* Kernels that may still be launched before the device is lost; negative: any number. */
static _Atomic int launches_left = -1;

bool is_lost(void)
{
	return launches_left == 0;
}

void count_launch(void)
{
	if (launches_left > 0)
		launches_left--;
}

CUresult done(int err)
{
	if (is_lost())
		return CUDA_ERROR_LAUNCH_FAILED;
	return err ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUcontext context_of(int device)
{
	return &contexts[device];
}

CUcontext current_context(void)
{
	return depth > 0 ? stack[depth - 1] : NULL;
}

int current(void)
{
	return depth > 0 ? stack[depth - 1]->device : -1;
}

/* ---- The driver and its devices ------------------------------------------------------------ */

static void start_queues(void)
{
	for (int device = 0; device < DEVICES_MAX; device++)
		rd_condition_init(&contexts[device].queues.change);
	queues_start();
	room_start();
}

EXPORT CUresult cuInit(unsigned flags)
{
	const char *launches = getenv("EMULATED_LAUNCHES");
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	if (launches && !started)
		launches_left = atoi(launches);
	if (!started)
		start_queues();
	/* As on a machine with none. */
	if (visible && !*visible)
		return CUDA_ERROR_NO_DEVICE;
	started = flags == 0;
	for (int device = 0; device < DEVICES_MAX; device++)
		contexts[device].device = device;
	return done(flags || gpus_find());
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
			? "code to load, a full queue or a kernel (CUDA_LAUNCH_BLOCKING) waits "
			  "for streams that wait for another"
		: error == CUDA_ERROR_TIMEOUT
			? "a call waits with the context's lock for streams that wait for another"
		: error == CUDA_ERROR_NO_BINARY_FOR_GPU ? "there are no kernels for this device"
							: "the emulated driver refuses";
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return done(!started || !gpus_have(ordinal));
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	*count = gpus_count();
	return started ? done(0) : CUDA_ERROR_NOT_INITIALIZED;
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
	strncpy(name, "emulated GPU", (size_t)size);
	return done(!gpus_have(device));
}

int capability(CUdevice device)
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
		*value = EMULATED_PROCESSORS;
	if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
		*value = capability(device) / 10;
	if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
		*value = capability(device) % 10;
	if (attribute == CU_DEVICE_ATTRIBUTE_MPS_ENABLED)
		*value = getenv("EMULATED_MPS") != NULL;
	if (attribute == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)
		*value = (int)(gpus_pci(device) >> 16);
	if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
		*value = (int)(gpus_pci(device) >> 8 & 0xff);
	return done(!gpus_have(device));
}

EXPORT CUresult cuDeviceCanAccessPeer(int *able, CUdevice device, CUdevice peer)
{
	*able = device != peer && gpus_reach(device, peer);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	if (!gpus_have(device))
		return CUDA_ERROR_INVALID_DEVICE;
	retained[device] = true;
	*context = &contexts[device];
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
	return done(!gpus_have(device) || !retained[device]);
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
