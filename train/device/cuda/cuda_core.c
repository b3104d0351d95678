/* The common ground of a GPU's operations: failures, launches, scratch. */
#include <stdio.h>

#include "train/base/fail.h"
#include "train/device/cuda/gpu.h"

/* The most blocks of a grid: more would only queue. */
#define BLOCKS_MAX 1024

/* Bytes of scratch at least, so that small operations after the first step never allocate. */
#define SCRATCH_LEAST (1 << 20)

static void stick(struct gpu *gpu, const char *what, const char *text, int number)
{
	struct device *device = &gpu->base;
	if (device->error)
		return;
	snprintf(device->reason, sizeof(device->reason), "GPU %d (%s): cannot %s: %s (error %d)",
		device->number, device->name, what, text, number);
	device->error = fail("%s", device->reason);
}

bool gpu_check(struct gpu *gpu, CUresult result, const char *what)
{
	const char *text = "unknown error";
	if (result != CUDA_SUCCESS) {
		cuda.cuGetErrorString(result, &text);
		stick(gpu, what, text, (int)result);
	}
	return !gpu->base.error;
}

bool gpu_check_blas(struct gpu *gpu, cublasStatus_t status, const char *what)
{
	if (status != CUBLAS_STATUS_SUCCESS)
		stick(gpu, what, cuda.cublasGetStatusString(status), (int)status);
	return !gpu->base.error;
}

void gpu_launch(struct gpu *gpu, enum kernel kernel, size_t blocks, void **parameters)
{
	if (gpu->base.error || !blocks)
		return;
	gpu_check(gpu,
		cuda.cuLaunchKernel(gpu->kernels[kernel],
			blocks < BLOCKS_MAX ? (unsigned)blocks : BLOCKS_MAX, 1, 1, TRAIN_THREADS, 1,
			1, 0, gpu->tracks[COMPUTATION], parameters, NULL),
		"run a kernel");
}

size_t gpu_blocks(size_t threads)
{
	return (threads + TRAIN_THREADS - 1) / TRAIN_THREADS;
}

void *gpu_scratch(struct gpu *gpu, enum scratch scratch, size_t size)
{
	struct device *device = &gpu->base;
	void *memory = gpu->scratch[scratch].memory;
	if (device->error)
		return NULL;
	if (memory && size <= gpu->scratch[scratch].size)
		return memory;
	gpu_free(device, memory);
	gpu->scratch[scratch].memory = NULL;
	if (size < SCRATCH_LEAST)
		size = SCRATCH_LEAST;
	int err = rondo_mem_alloc_on(&memory, size, device->number);
	if (err) {
		stick(gpu, "allocate for an operation", rondo_last_error(), err);
		return NULL;
	}
	gpu->scratch[scratch].memory = memory;
	gpu->scratch[scratch].size = size;
	return memory;
}
