/* NVIDIA GPUs, by the CUDA driver; each device's primary context, which the CUDA runtime uses too.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "device/cuda/driver.h"
#include "device/cuda/graph.h"
#include "base/arith.h"
#include "base/error.h"
#include "base/log.h"

/* As lib/device/cuda/machine.cuh has it. */
#define THREADS 512
#define DEVICES_MAX 64
/* Blocks of a kernel that has the device to itself, by multiprocessor. */
#define BLOCKS_A_PROCESSOR 4

_Static_assert(sizeof(struct rd_handle) >= sizeof(CUipcMemHandle), "a handle fits");
_Static_assert(sizeof(struct rd_work) <= 4096 && sizeof(struct rd_transfer_work) <= 4096,
	"work is passed to a kernel by value");

/* Kernels for all architectures, from kernels.fatbin, plans.fatbin and transfers.fatbin. */
extern const unsigned char rd_cuda_kernels[], rd_cuda_plans[], rd_cuda_transfers[];

struct device {
	CUcontext context;
	CUfunction work[RONDO_TYPE_COUNT], steps[RONDO_TYPE_COUNT], transfers; /* kernels */
	CUstream stream; /* zeroes new memory */
	int processors;
	int blocks; /* for which there is room at once */
	int error; /* why it cannot be used, if it cannot */
	char reason[RD_REASON_SIZE];
};

static struct device devices[DEVICES_MAX];
static pthread_once_t opened[DEVICES_MAX];
static _Thread_local int opening;

/* ---- Opening a device ---------------------------------------------------------------------- */

/*
 * A kernel is loaded now, and not when it is first run: loading waits for the device, on which a
 * peer's kernel may be waiting for this one.
 */
static int load_kernel(struct device *device, CUmodule module, const char *name, CUfunction *kernel)
{
	int registers, blocks, err;

	err = rd_driver_check(driver.cuModuleGetFunction(kernel, module, name), "find a kernel");
	if (!err)
		err = rd_driver_check(
			driver.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, *kernel),
			"load a kernel");
	if (!err)
		err = rd_driver_check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
					      &blocks, *kernel, THREADS, 0),
			"size a kernel");
	if (!err && (device->blocks == 0 || blocks * device->processors < device->blocks))
		device->blocks = blocks * device->processors;
	return err;
}

static int load_kernels(
	struct device *device, const unsigned char *image, const char *kind, CUfunction *kernels)
{
	CUmodule module;
	char name[32];
	int err = rd_driver_check(driver.cuModuleLoadData(&module, image), "load the kernels");

	for (int type = 0; type < RONDO_TYPE_COUNT && !err; type++) {
		snprintf(name, sizeof(name), "rondo_%s_%s", kind, rondo_type_name(type));
		err = load_kernel(device, module, name, &kernels[type]);
	}
	return err;
}

static int load_transfers(struct device *device)
{
	CUmodule module;
	int err = rd_driver_check(
		driver.cuModuleLoadData(&module, rd_cuda_transfers), "load the kernels");

	return err ? err : load_kernel(device, module, "rondo_transfers", &device->transfers);
}

/* Streams of ours carry communication, which computation waits for. None follows the null stream.
 */
static CUresult make_stream(CUstream *stream)
{
	int least, greatest;
	CUresult result = driver.cuCtxGetStreamPriorityRange(&least, &greatest);

	if (result != CUDA_SUCCESS)
		return result;
	return driver.cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, greatest);
}

static void open_device(void)
{
	struct device *device = &devices[opening];
	char name[96] = "";
	CUdevice handle;
	int err = rd_driver_serves(opening);

	if (!err)
		err = rd_driver_check(driver.cuDeviceGet(&handle, opening), "find a device");
	if (!err)
		err = rd_driver_check(
			driver.cuDevicePrimaryCtxRetain(&device->context, handle), "use a device");
	if (!err)
		err = rd_driver_check(driver.cuDeviceGetAttribute(&device->processors,
					      CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle),
			"ask a device");
	if (!err)
		err = rd_driver_check(driver.cuCtxPushCurrent(device->context), "use a device");
	if (!err) {
		err = load_kernels(device, rd_cuda_kernels, "work", device->work);
		if (!err)
			err = load_kernels(device, rd_cuda_plans, "steps", device->steps);
		if (!err)
			err = load_transfers(device);
		if (!err)
			err = rd_driver_check(make_stream(&device->stream), "make a stream");
		driver.cuCtxPopCurrent(&(CUcontext){ NULL });
		driver.cuDeviceGetName(name, sizeof(name), handle);
		rd_log(RD_INFO, RD_PROBE, "device %d is a %s with %d multiprocessors", opening,
			name, device->processors);
	}
	device->error = err;
	if (err)
		snprintf(device->reason, sizeof(device->reason), "device %d: %s", opening,
			rondo_last_error());
}

/* Opens the device if need be, and makes it current until leave(). */
static int enter(int number)
{
	if (rd_driver_load() == 0)
		return RONDO_UNSUPPORTED;
	if (number < 0 || number >= rd_driver_load() || number >= DEVICES_MAX)
		return rd_fail(RONDO_INVALID, "there is no device %d: this process sees %d", number,
			rd_driver_load());
	opening = number;
	pthread_once(&opened[number], open_device);
	if (devices[number].error)
		return rd_fail(devices[number].error, "%s", devices[number].reason);
	return rd_driver_check(driver.cuCtxPushCurrent(devices[number].context), "use a device");
}

static int leave(CUresult result, const char *what)
{
	driver.cuCtxPopCurrent(&(CUcontext){ NULL });
	return rd_driver_check(result, what);
}

/* ---- Devices ------------------------------------------------------------------------------- */

static int current(void)
{
	CUcontext context = NULL;
	CUdevice device;

	if (rd_driver_load() == 0 || driver.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context ||
		driver.cuCtxGetDevice(&device) != CUDA_SUCCESS || rd_driver_serves((int)device))
		return -1;
	return (int)device;
}

static int device_attribute(int device, CUdevice_attribute attribute)
{
	CUdevice handle;
	int value = 0;

	if (driver.cuDeviceGet(&handle, device) != CUDA_SUCCESS ||
		driver.cuDeviceGetAttribute(&value, attribute, handle) != CUDA_SUCCESS)
		return 0;
	return value;
}

static uint32_t pci(int device)
{
	return (uint32_t)device_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) << 16 |
	       (uint32_t)device_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) << 8 |
	       (uint32_t)device_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) << 3;
}

static bool shared_at_once(int device)
{
	return device_attribute(device, CU_DEVICE_ATTRIBUTE_MPS_ENABLED) == 1;
}

static int blocks(int device)
{
	if (enter(device))
		return 0;
	leave(CUDA_SUCCESS, "");
	return devices[device].blocks;
}

/* ---- Memory -------------------------------------------------------------------------------- */

static bool find(const void *at, struct rd_allocation *allocation)
{
	CUmemorytype type = 0;
	int ordinal = -1;
	CUdeviceptr start = 0;
	size_t size = 0;
	unsigned long long id = 0;
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_BUFFER_ID };
	void *answers[] = { &type, &ordinal, &start, &size, &id };

	if (rd_driver_load() == 0 ||
		driver.cuPointerGetAttributes(5, attributes, answers, (CUdeviceptr)at) !=
			CUDA_SUCCESS ||
		type != CU_MEMORYTYPE_DEVICE)
		return false;
	*allocation = (struct rd_allocation){
		.device = ordinal, .id = id, .base = (char *)start, .size = size
	};
	return true;
}

static bool pageable(const void *at)
{
	CUmemorytype type = 0;
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE };
	void *answers[] = { &type };

	return driver.cuPointerGetAttributes(1, attributes, answers, (CUdeviceptr)at) !=
		       CUDA_SUCCESS ||
	       type == 0;
}

/* Whether kernels on the current device access this byte of host memory at the host's address. */
static bool is_seen(const char *at)
{
	CUmemorytype type = 0;
	CUdeviceptr seen = 0;
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_POINTER };
	void *answers[] = { &type, &seen };

	return driver.cuPointerGetAttributes(2, attributes, answers, (CUdeviceptr)at) ==
		       CUDA_SUCCESS &&
	       type == CU_MEMORYTYPE_HOST && seen == (CUdeviceptr)at;
}

static bool pinned(int device, const void *at, size_t size)
{
	bool seen;

	if (enter(device))
		return false;
	seen = is_seen(at) && is_seen((const char *)at + size - 1);
	leave(CUDA_SUCCESS, "");
	return seen;
}

/* Not on the null stream: it waits for the program's streams, where a call may wait for a peer that
   allocates. */
static CUresult zero(CUstream stream, CUdeviceptr memory, size_t size)
{
	CUresult result = driver.cuMemsetD8Async(memory, 0, size, stream);

	return result == CUDA_SUCCESS ? driver.cuStreamSynchronize(stream) : result;
}

static int alloc(int device, size_t size, void **memory)
{
	CUdeviceptr made;
	CUresult result;
	int err = enter(device);

	if (err)
		return err;
	result = driver.cuMemAlloc(&made, size);
	if (result == CUDA_SUCCESS) {
		result = zero(devices[device].stream, made, size);
		if (result == CUDA_SUCCESS)
			*memory = (void *)made;
		else
			driver.cuMemFree(made);
	}
	return leave(result, "allocate device memory");
}

static int cuda_free(void *memory)
{
	struct rd_allocation allocation;
	int err;

	if (!find(memory, &allocation) || allocation.base != memory)
		return rd_fail(RONDO_INVALID, "%p is not the start of device memory", memory);
	err = enter(allocation.device);
	return err ? err : leave(driver.cuMemFree((CUdeviceptr)memory), "free device memory");
}

static int export(const void *base, struct rd_handle *handle)
{
	struct rd_allocation allocation;
	CUipcMemHandle made;
	int err;

	if (!find(base, &allocation))
		return rd_fail(RONDO_INVALID, "%p is no device memory", base);
	err = enter(allocation.device);
	if (!err)
		err = leave(driver.cuIpcGetMemHandle(&made, (CUdeviceptr)base),
			"let other processes map device memory");
	if (!err)
		memcpy(handle, &made, sizeof(made));
	return err;
}

static int import(int device, const struct rd_handle *handle, void **base, size_t *size)
{
	CUipcMemHandle theirs;
	CUdeviceptr mapped, start;
	CUresult result;
	size_t whole;
	int err = enter(device);

	if (err)
		return err;
	memcpy(&theirs, handle, sizeof(theirs));
	result = driver.cuIpcOpenMemHandle(&mapped, theirs, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (result == CUDA_SUCCESS)
		result = driver.cuMemGetAddressRange(&start, &whole, mapped);
	if (result == CUDA_SUCCESS) {
		*base = (void *)mapped;
		*size = whole - (size_t)(mapped - start);
	}
	return leave(result, "map another process's device memory");
}

static void drop(int device, void *base)
{
	if (enter(device) == 0)
		leave(driver.cuIpcCloseMemHandle((CUdeviceptr)base), "unmap device memory");
}

/* The driver exports whole pages of the host's size. */
static int dmabuf(void *base, size_t size, int *fd, size_t *offset)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)base / page * page;
	struct rd_allocation allocation;
	CUresult result;
	int err;

	if (!find(base, &allocation))
		return rd_fail(RONDO_INVALID, "%p is no device memory", base);
	err = enter(allocation.device);
	if (err)
		return err;
	*offset = (uintptr_t)base - first;
	result = driver.cuMemGetHandleForAddressRange(fd, first, rd_round_up(*offset + size, page),
		CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	err = leave(result, "let network cards access device memory (dma-buf)");
	return result == CUDA_ERROR_NOT_SUPPORTED ? RONDO_UNSUPPORTED : err;
}

static int peer(int device, int other)
{
	CUdevice here, there;
	CUresult result;
	int able = 0, err = enter(other);

	if (err)
		return err;
	leave(CUDA_SUCCESS, "");
	err = enter(device);
	if (err)
		return err;
	result = driver.cuDeviceGet(&here, device);
	if (result == CUDA_SUCCESS)
		result = driver.cuDeviceGet(&there, other);
	if (result == CUDA_SUCCESS)
		result = driver.cuDeviceCanAccessPeer(&able, here, there);
	if (result == CUDA_SUCCESS && able)
		result = driver.cuCtxEnablePeerAccess(devices[other].context, 0);
	if (result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
		result = CUDA_SUCCESS;
	err = leave(result, "reach a peer device's memory");
	if (!err && !able)
		err = rd_fail(RONDO_UNSUPPORTED, "device %d cannot reach the memory of device %d",
			device, other);
	return err;
}

/* A device in whose context host memory is registered, for all: any that is open. */
static int any_device(void)
{
	for (int device = 0; device < DEVICES_MAX; device++)
		if (devices[device].context)
			return device;
	return 0;
}

static int share(void *memory, size_t size)
{
	CUdeviceptr seen = 0;
	CUresult result;
	int err = enter(any_device());

	if (err)
		return err;
	result = driver.cuMemHostRegister(
		memory, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
		result = CUDA_SUCCESS;
	if (result == CUDA_SUCCESS)
		result = driver.cuMemHostGetDevicePointer(&seen, memory, 0);
	err = leave(result, "let devices address host memory");
	if (!err && seen != (CUdeviceptr)memory)
		err = rd_fail(RONDO_UNSUPPORTED,
			"devices here see host memory at other addresses than the host");
	return err;
}

static void stop_sharing(void *memory)
{
	if (enter(any_device()) == 0)
		leave(driver.cuMemHostUnregister(memory), "take host memory from devices");
}

/* ---- Streams ------------------------------------------------------------------------------- */

static int stream_create(int device, void **stream)
{
	CUstream made;
	int err = enter(device);

	if (err)
		return err;
	err = leave(make_stream(&made), "make a stream");
	if (!err)
		*stream = made;
	return err;
}

static void stream_destroy(int device, void *stream)
{
	if (enter(device))
		return;
	driver.cuStreamSynchronize(stream);
	leave(driver.cuStreamDestroy(stream), "end a stream");
}

static int stream_synchronize(int device, void *stream)
{
	int err = enter(device);

	return err ? err : leave(driver.cuStreamSynchronize(stream), "wait for a stream");
}

static int stream_query(int device, void *stream, bool *done)
{
	CUresult result;
	int err = enter(device);

	if (err)
		return err;
	result = driver.cuStreamQuery(stream);
	*done = result != CUDA_ERROR_NOT_READY;
	return leave(*done ? result : CUDA_SUCCESS, "ask a stream");
}

static int stream_check(int device, void *stream)
{
	CUcontext context;
	int err = enter(device);

	if (err)
		return err;
	err = leave(driver.cuStreamGetCtx(stream, &context), "use this stream");
	if (!err && context != devices[device].context)
		err = rd_fail(RONDO_INVALID,
			"this stream is not of device %d, or not of its primary context", device);
	return err;
}

static enum rd_capture stream_captures(void *stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS)
		return RD_CAPTURE_NONE;
	return status == CU_STREAM_CAPTURE_STATUS_ACTIVE        ? RD_CAPTURE_ACTIVE
	       : status == CU_STREAM_CAPTURE_STATUS_INVALIDATED ? RD_CAPTURE_INVALIDATED
								: RD_CAPTURE_NONE;
}

static void ignore_captures(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	if (rd_driver_load() > 0)
		driver.cuThreadExchangeStreamCaptureMode(&mode);
}

static int stream_follow(int device, void *stream, void *earlier)
{
	CUevent event;
	CUresult result;
	int err = enter(device);

	if (err)
		return err;
	result = driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result == CUDA_SUCCESS) {
		result = driver.cuEventRecord(event, earlier);
		if (result == CUDA_SUCCESS)
			result = driver.cuStreamWaitEvent(stream, event, 0);
		/* It goes when nothing waits for it any more. */
		driver.cuEventDestroy(event);
	}
	return leave(result, "order two streams");
}

static int event_create(int device, void **event)
{
	CUevent made;
	int err = enter(device);

	if (!err)
		err = leave(driver.cuEventCreate(&made, CU_EVENT_DEFAULT), "make an event");
	if (!err)
		*event = made;
	return err;
}

static void event_destroy(int device, void *event)
{
	if (enter(device) == 0)
		leave(driver.cuEventDestroy(event), "end an event");
}

static int event_record(int device, void *stream, void *event)
{
	int err = enter(device);

	return err ? err : leave(driver.cuEventRecord(event, stream), "record an event");
}

static int event_elapsed(int device, void *from, void *to, double *us)
{
	CUresult result;
	float ms = 0;
	int err = enter(device);

	if (err)
		return err;
	result = driver.cuEventSynchronize(from);
	if (result == CUDA_SUCCESS)
		result = driver.cuEventSynchronize(to);
	if (result == CUDA_SUCCESS)
		result = driver.cuEventElapsedTime(&ms, from, to);
	*us = (double)ms * 1e3;
	return leave(result, "time what ran between two events");
}

static int post_flags(int device, void *stream, const struct rd_flag_op *ops, int count)
{
	CUstreamBatchMemOpParams params[RD_FLAG_OPS];
	int err = enter(device);

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
	return leave(driver.cuStreamBatchMemOp(stream, (unsigned)count, params, 0),
		"have a stream wait for flags, or write them");
}

static int copy(int device, void *stream, void *to, const void *from, size_t size)
{
	int err = enter(device);

	return err ? err
		   : leave(driver.cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, size, stream),
			     "copy");
}

/* The kernel's only parameter. */
static CUresult launch(CUfunction kernel, int grid, void *stream, const void *parameter)
{
	void *parameters[] = { (void *)parameter };

	return driver.cuLaunchKernel(
		kernel, (unsigned)grid, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL);
}

static int run(int device, void *stream, const struct rd_work *work)
{
	int grid, err = enter(device);

	if (err)
		return err;
	grid = work->fused ? work->blocks : devices[device].processors * BLOCKS_A_PROCESSOR;
	return leave(launch(devices[device].work[work->type], grid, stream, work), "run a kernel");
}

static int run_steps(int device, void *stream, const struct rd_steps *steps)
{
	int err = enter(device);

	if (err)
		return err;
	return leave(launch(devices[device].steps[steps->type], steps->channels, stream, steps),
		"run a kernel");
}

static int run_transfers(int device, void *stream, const struct rd_transfer_work *work)
{
	int err = enter(device);

	if (err)
		return err;
	return leave(launch(devices[device].transfers, work->blocks, stream, work), "run a kernel");
}

const struct rd_device_ops rd_cuda = {
	.name = "CUDA",
	.shares_queues = true,
	.count = rd_driver_load,
	.current = current,
	.pci = pci,
	.shared_at_once = shared_at_once,
	.find = find,
	.pageable = pageable,
	.pinned = pinned,
	.alloc = alloc,
	.free = cuda_free,
	.export = export,
	.import = import,
	.drop = drop,
	.dmabuf = dmabuf,
	.peer = peer,
	.share = share,
	.unshare = stop_sharing,
	.stream_create = stream_create,
	.stream_destroy = stream_destroy,
	.stream_synchronize = stream_synchronize,
	.stream_query = stream_query,
	.stream_check = stream_check,
	.stream_captures = stream_captures,
	.ignore_captures = ignore_captures,
	.graph_begin = rd_cuda_graph_begin,
	.graph_end = rd_cuda_graph_end,
	.graph_launch = rd_cuda_graph_launch,
	.graph_destroy = rd_cuda_graph_destroy,
	.stream_follow = stream_follow,
	.event_create = event_create,
	.event_destroy = event_destroy,
	.event_record = event_record,
	.event_elapsed = event_elapsed,
	.post_flags = post_flags,
	.copy = copy,
	.run = run,
	.run_steps = run_steps,
	.run_transfers = run_transfers,
	.blocks = blocks,
};
