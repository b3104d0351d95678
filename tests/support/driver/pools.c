/* Memory from pools, in the order of a stream: other processes cannot map it. */
#include "allocations.h"
#include "state.h"

#define POOLED_MAX 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUdeviceptr pooled[POOLED_MAX];

static CUresult replace(CUdeviceptr before, CUdeviceptr after)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < POOLED_MAX && result; i++) {
		if (pooled[i] != before)
			continue;
		pooled[i] = after;
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

bool is_pooled(CUdeviceptr memory)
{
	return replace(memory, memory) == CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *memory, size_t size, CUstream stream)
{
	if (current() < 0 || !stream)
		return CUDA_ERROR_INVALID_CONTEXT;
	*memory = (CUdeviceptr)allocation_create(current(), size);
	return *memory ? replace(0, *memory) : CUDA_ERROR_OUT_OF_MEMORY;
}

static void free_now(void *memory)
{
	allocation_destroy(memory);
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream)
{
	CUresult result = replace(memory, 0);

	return result ? result : cuLaunchHostFunc(stream, free_now, (void *)memory);
}
