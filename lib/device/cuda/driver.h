/*
 * The CUDA driver, found at run time: this library is linked to nothing of CUDA's. A function of
 * the driver's is called as rd_driver.cuInit(0); its name is what cuda.h makes of it
 * (cuMemAlloc_v2).
 */
#ifndef RD_DRIVER_H
#define RD_DRIVER_H

#include <cuda.h>
#include <stdbool.h>

#define RD_DRIVER_FUNCTIONS(X) \
	X(cuInit) \
	X(cuDriverGetVersion) \
	X(cuGetErrorString) \
	X(cuDeviceGet) \
	X(cuDeviceGetCount) \
	X(cuDeviceGetName) \
	X(cuDeviceGetAttribute) \
	X(cuDeviceCanAccessPeer) \
	X(cuDevicePrimaryCtxRetain) \
	X(cuCtxGetCurrent) \
	X(cuCtxGetDevice) \
	X(cuCtxPushCurrent) \
	X(cuCtxPopCurrent) \
	X(cuCtxEnablePeerAccess) \
	X(cuCtxGetStreamPriorityRange) \
	X(cuMemAlloc) \
	X(cuMemFree) \
	X(cuMemsetD8Async) \
	X(cuMemcpyAsync) \
	X(cuMemGetAddressRange) \
	X(cuMemGetHandleForAddressRange) \
	X(cuMemHostRegister) \
	X(cuMemHostUnregister) \
	X(cuMemHostGetDevicePointer) \
	X(cuPointerGetAttributes) \
	X(cuIpcGetMemHandle) \
	X(cuIpcOpenMemHandle) \
	X(cuIpcCloseMemHandle) \
	X(cuStreamCreateWithPriority) \
	X(cuStreamDestroy) \
	X(cuStreamSynchronize) \
	X(cuStreamQuery) \
	X(cuStreamGetCtx) \
	X(cuStreamIsCapturing) \
	X(cuThreadExchangeStreamCaptureMode) \
	X(cuStreamBeginCapture) \
	X(cuStreamEndCapture) \
	X(cuGraphInstantiate) \
	X(cuGraphLaunch) \
	X(cuGraphExecDestroy) \
	X(cuGraphDestroy) \
	X(cuStreamWaitEvent) \
	X(cuStreamBatchMemOp) \
	X(cuEventCreate) \
	X(cuEventRecord) \
	X(cuEventSynchronize) \
	X(cuEventElapsedTime) \
	X(cuEventDestroy) \
	X(cuModuleLoadData) \
	X(cuModuleGetFunction) \
	X(cuFuncGetAttribute) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
	X(cuLaunchKernel)

struct rd_driver {
#define RD_DRIVER_FIELD(name) __typeof__(name) *name;
	RD_DRIVER_FUNCTIONS(RD_DRIVER_FIELD)
#undef RD_DRIVER_FIELD
};

extern struct rd_driver rd_driver;

/* Loads it, once. Devices, up to the last for which this build has kernels; 0, with the reason of
   what is missing, where there are none. */
int rd_driver_load(void);

/* 0, or RONDO_UNSUPPORTED with the reason where this build has no kernels for the device. */
int rd_driver_serves(int number);

/* 0, or RONDO_SYSTEM with the reason: "cannot WHAT: out of memory". */
int rd_driver_check(CUresult result, const char *what);

#endif
