/*
 * The CUDA driver and cuBLAS, loaded at run time: the same binary runs without a GPU. Call a
 * function as cuda.cuStreamSynchronize(...); the headers may define its name (cuStreamDestroy_v2).
 */
#ifndef TRAIN_CUDA_DRIVER_H
#define TRAIN_CUDA_DRIVER_H

#include <cublas_v2.h>
#include <cuda.h>

#define TRAIN_CUDA_FUNCTIONS(X) \
	X(cuInit) \
	X(cuGetErrorString) \
	X(cuDeviceGet) \
	X(cuDeviceGetName) \
	X(cuDevicePrimaryCtxRetain) \
	X(cuDevicePrimaryCtxRelease) \
	X(cuCtxPushCurrent) \
	X(cuCtxPopCurrent) \
	X(cuMemAllocHost) \
	X(cuMemFreeHost) \
	X(cuMemcpyAsync) \
	X(cuMemsetD8Async) \
	X(cuCtxGetStreamPriorityRange) \
	X(cuStreamCreateWithPriority) \
	X(cuStreamDestroy) \
	X(cuStreamSynchronize) \
	X(cuStreamWaitEvent) \
	X(cuEventCreate) \
	X(cuEventRecord) \
	X(cuEventSynchronize) \
	X(cuEventElapsedTime) \
	X(cuEventDestroy) \
	X(cuModuleLoadData) \
	X(cuModuleUnload) \
	X(cuModuleGetFunction) \
	X(cuFuncGetAttribute) \
	X(cuLaunchKernel)

#define TRAIN_CUBLAS_FUNCTIONS(X) \
	X(cublasCreate) \
	X(cublasDestroy) \
	X(cublasSetStream) \
	X(cublasGemmEx) \
	X(cublasGemmStridedBatchedEx) \
	X(cublasGetStatusString)

struct cuda_functions {
#define TRAIN_FIELD(name) __typeof__(name) *name;
	TRAIN_CUDA_FUNCTIONS(TRAIN_FIELD)
	TRAIN_CUBLAS_FUNCTIONS(TRAIN_FIELD)
#undef TRAIN_FIELD
};

extern struct cuda_functions cuda;

/* Loads both. Fails with a remedy if one is missing. */
int cuda_load(void);

#endif
