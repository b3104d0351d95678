/*
 * The devices that are in use: each one's primary context, which the CUDA runtime uses too, and the
 * kernels in it.
 */
#ifndef RD_CUDA_CONTEXT_H
#define RD_CUDA_CONTEXT_H

#include "base/error.h"
#include "device/cuda/driver.h"

/* As lib/device/cuda/machine.cuh has it. */
#define RD_CUDA_THREADS 512

/* Types with kernels: those before bool (gpu/element.h). */
#define RD_CUDA_TYPES RONDO_BOOL

struct rd_cuda_device {
	CUcontext context;
	/* Kernels: */
	CUfunction work[RD_CUDA_TYPES], small[RD_CUDA_TYPES], steps[RD_CUDA_TYPES], transfers;
	CUstream stream; /* zeroes new memory, and copies on no stream */
	int processors;
	int blocks; /* for which there is room at once */
	int error; /* why it cannot be used, if it cannot */
	char reason[RD_REASON_SIZE];
};

/* Opens the device if need be, and makes it current until rd_cuda_leave(). */
int rd_cuda_enter(int number);
/* 0, or the error of a driver's call: "device 1: cannot WHAT: out of memory". */
int rd_cuda_leave(int number, CUresult result, const char *what);
/* The device must have been entered. */
struct rd_cuda_device *rd_cuda_device(int number);

/* Streams of ours carry communication, which computation waits for. None follows the null stream.
 */
CUresult rd_cuda_make_stream(CUstream *stream);

#endif
