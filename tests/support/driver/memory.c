/* Memory of the emulated driver: allocation, copies, attributes, handles. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocations.h"
#include "state.h"
#include "worker.h"

/* Peers' allocations that were mapped so far. */
static atomic_uint imports;

EXPORT CUresult cuMemAlloc(CUdeviceptr *memory, size_t size)
{
	if (current() < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	*memory = (CUdeviceptr)allocation_create(current(), size);
	return *memory ? done(0) : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFree(CUdeviceptr memory)
{
	/* Work that is queued on a lost device may still access it. */
	if (is_lost())
		return CUDA_ERROR_LAUNCH_FAILED;
	if (current() < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!wait_for_device())
		return CUDA_ERROR_TIMEOUT;
	return done(allocation_destroy((void *)memory));
}

EXPORT CUresult cuMemAllocHost(void **memory, size_t size)
{
	*memory = NULL;
	if (current() < 0 || is_lost())
		return done(1);
	if (!wait_for_device())
		return CUDA_ERROR_TIMEOUT;
	*memory = malloc(size);
	return *memory ? pinned_add(*memory, size) : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT void emulated_give_handles(int given)
{
	allocations_give_handles(given);
}

/* Memory of a lost device stays referenced here, so that no tool takes it for a leak. */
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
	if (pinned_remove(memory))
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
	CUresult result;

	if (!fill)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*fill = (struct fill){ (void *)memory, byte, size };
	result = cuLaunchHostFunc(stream, fill_now, fill);
	if (result != CUDA_SUCCESS)
		free(fill);
	return result;
}

/* Also a copy within host memory is done before the call returns. */
static bool copy_waits(CUdeviceptr to, CUdeviceptr from)
{
	struct allocation allocation;
	bool to_device = allocation_find((void *)to, &allocation);
	bool from_device = allocation_find((void *)from, &allocation);

	return (!to_device && !from_device) || (!to_device && !is_pinned((void *)to)) ||
	       (!from_device && !is_pinned((void *)from));
}

/* Holds the context's lock from before the stream's earlier work is done until the copy is. */
static CUresult copy_pageable(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	struct item *item;
	CUresult result = item_begin(stream, ITEM_COPY, &item);

	if (result)
		return result;
	if (!stream_drain(stream)) {
		item_end(item, 1);
		return CUDA_ERROR_TIMEOUT;
	}
	return item_end(item, worker_copy(stream, (void *)to, (void *)from, size));
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	struct item *item;
	CUresult result;

	if (current() < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (copy_waits(to, from) && !worker_captures(stream))
		return copy_pageable(to, from, size, stream);
	result = item_begin(stream, ITEM_OTHER, &item);
	return result ? result
		      : item_end(item, worker_copy(stream, (void *)to, (void *)from, size));
}

EXPORT CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr at)
{
	struct allocation allocation;

	if (!allocation_find((void *)at, &allocation))
		return CUDA_ERROR_NOT_FOUND;
	*base = (CUdeviceptr)allocation.base;
	*size = allocation.size;
	return CUDA_SUCCESS;
}

/* A memfd in place of a dma-buf; EMULATED_NO_DMABUF: a driver without them. The range is of whole
   pages, also of an allocation that is not. */
EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr at, size_t size,
	CUmemRangeHandleType type, unsigned long long flags)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct allocation allocation;

	if (current() < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (getenv("EMULATED_NO_DMABUF"))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags || at % page || size % page ||
		!allocation_find((void *)at, &allocation) ||
		size > allocation.size - (size_t)((char *)at - allocation.base))
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)handle = allocation_file(&allocation);
	return *(int *)handle < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

EXPORT CUresult cuPointerGetAttributes(
	unsigned count, CUpointer_attribute *attributes, void **values, CUdeviceptr at)
{
	struct allocation allocation = { .device = -1 };
	bool found = allocation_find((void *)at, &allocation);

	for (unsigned i = 0; i < count; i++)
		switch (attributes[i]) {
		case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
			*(unsigned *)values[i] = found                   ? CU_MEMORYTYPE_DEVICE
						 : is_pinned((void *)at) ? CU_MEMORYTYPE_HOST
									 : 0;
			break;
		case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
			*(CUdeviceptr *)values[i] =
				current() >= 0 && (found || is_pinned((void *)at)) ? at : 0;
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
	if (is_pooled(memory) || allocation_export((void *)memory, handle))
		return CUDA_ERROR_INVALID_VALUE;
	return done(current() < 0);
}

EXPORT unsigned emulated_imports(void)
{
	return atomic_load(&imports);
}

EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *memory, CUipcMemHandle handle, unsigned flags)
{
	CUresult result;

	if (current() < 0 || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	lock_context();
	result = ipc_open(current(), &handle, (void **)memory);
	unlock_context();
	if (result == CUDA_SUCCESS)
		atomic_fetch_add(&imports, 1);
	return done(result);
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr memory)
{
	if (current() < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	/* Kernels may still access it. */
	if (!wait_for_device())
		return CUDA_ERROR_TIMEOUT;
	return done(ipc_close(current(), (void *)memory));
}

/* CUDA does not say whether these wait for the device. */
EXPORT CUresult cuMemHostRegister(void *memory, size_t size, unsigned flags)
{
	if (current() < 0 || !(flags & CU_MEMHOSTREGISTER_PORTABLE))
		return CUDA_ERROR_INVALID_CONTEXT;
	return wait_for_device() ? pinned_add(memory, size) : CUDA_ERROR_TIMEOUT;
}

EXPORT CUresult cuMemHostUnregister(void *memory)
{
	if (current() < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	return wait_for_device() ? pinned_remove(memory) : CUDA_ERROR_TIMEOUT;
}

EXPORT CUresult cuMemHostGetDevicePointer(CUdeviceptr *seen, void *memory, unsigned flags)
{
	*seen = (CUdeviceptr)memory;
	return done(flags || !is_pinned(memory));
}
