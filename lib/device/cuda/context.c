#include "device/cuda/context.h"

#include <pthread.h>
#include <stdio.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"

#define DEVICES_MAX 64

/* Kernels for all architectures, from kernels.fatbin, plans.fatbin and transfers.fatbin. */
extern const unsigned char rd_cuda_kernels[], rd_cuda_plans[], rd_cuda_transfers[];

static struct rd_cuda_device devices[DEVICES_MAX];
static pthread_once_t opened[DEVICES_MAX];
static _Thread_local int opening;

/*
 * A kernel is loaded now, and not when it is first run: loading waits for the device, on which a
 * peer's kernel may be waiting for this one.
 */
static int load_kernel(
	struct rd_cuda_device *device, CUmodule module, const char *name, CUfunction *kernel)
{
	int registers, blocks, err;

	err = rd_driver_check(rd_driver.cuModuleGetFunction(kernel, module, name), "find a kernel");
	if (!err)
		err = rd_driver_check(rd_driver.cuFuncGetAttribute(
					      &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, *kernel),
			"load a kernel");
	if (!err)
		err = rd_driver_check(rd_driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
					      &blocks, *kernel, RD_CUDA_THREADS, 0),
			"size a kernel");
	if (!err && (device->blocks == 0 || blocks * device->processors < device->blocks))
		device->blocks = blocks * device->processors;
	return err;
}

static int load_module(CUmodule *module, const unsigned char *image)
{
	return rd_driver_check(rd_driver.cuModuleLoadData(module, image), "load the kernels");
}

/* One for each type. */
static int load_kind(
	struct rd_cuda_device *device, CUmodule module, const char *kind, CUfunction *kernels)
{
	char name[32];
	int err = 0;

	for (int type = 0; type < RD_CUDA_TYPES && !err; type++) {
		snprintf(name, sizeof(name), "rondo_%s_%s", kind, rondo_type_name(type));
		err = load_kernel(device, module, name, &kernels[type]);
	}
	return err;
}

static int load_kernels(struct rd_cuda_device *device)
{
	CUmodule module;
	int err = load_module(&module, rd_cuda_kernels);

	if (!err)
		err = load_kind(device, module, "work", device->work);
	if (!err)
		err = load_kind(device, module, "small", device->small);
	if (!err)
		err = load_module(&module, rd_cuda_plans);
	if (!err)
		err = load_kind(device, module, "steps", device->steps);
	if (!err)
		err = load_module(&module, rd_cuda_transfers);
	return err ? err : load_kernel(device, module, "rondo_transfers", &device->transfers);
}

CUresult rd_cuda_make_stream(CUstream *stream)
{
	int least, greatest;
	CUresult result = rd_driver.cuCtxGetStreamPriorityRange(&least, &greatest);

	if (result != CUDA_SUCCESS)
		return result;
	return rd_driver.cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, greatest);
}

static void open_device(void)
{
	struct rd_cuda_device *device = &devices[opening];
	char name[96] = "";
	CUdevice handle;
	int taken = rd_stderr_fill(), err = rd_driver_serves(opening);

	if (!err)
		err = rd_driver_check(rd_driver.cuDeviceGet(&handle, opening), "find a device");
	if (!err)
		err = rd_driver_check(rd_driver.cuDevicePrimaryCtxRetain(&device->context, handle),
			"use a device");
	if (!err)
		err = rd_driver_check(rd_driver.cuDeviceGetAttribute(&device->processors,
					      CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle),
			"ask a device");
	if (!err)
		err = rd_driver_check(rd_driver.cuCtxPushCurrent(device->context), "use a device");
	if (!err) {
		err = load_kernels(device);
		if (!err)
			err = rd_driver_check(
				rd_cuda_make_stream(&device->stream), "make a stream");
		rd_driver.cuCtxPopCurrent(&(CUcontext){ NULL });
		rd_driver.cuDeviceGetName(name, sizeof(name), handle);
		rd_log(RD_INFO, RD_PROBE, "device %d is a %s with %d multiprocessors", opening,
			name, device->processors);
	}
	rd_stderr_free(taken);
	device->error = err;
	if (err)
		snprintf(device->reason, sizeof(device->reason), "device %d: %s", opening,
			rondo_last_error());
}

/* A process may use several devices: the reason names this one. */
static int check(int number, CUresult result, const char *what)
{
	int err = rd_driver_check(result, what);

	return err ? rd_fail(err, "device %d: %s", number, rondo_last_error()) : 0;
}

int rd_cuda_enter(int number)
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
	return check(number, rd_driver.cuCtxPushCurrent(devices[number].context), "use it");
}

int rd_cuda_leave(int number, CUresult result, const char *what)
{
	rd_driver.cuCtxPopCurrent(&(CUcontext){ NULL });
	return check(number, result, what);
}

struct rd_cuda_device *rd_cuda_device(int number)
{
	return &devices[number];
}
