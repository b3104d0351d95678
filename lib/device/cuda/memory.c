#include "device/cuda/memory.h"

#include <string.h>
#include <unistd.h>

#include "device/cuda/context.h"
#include "base/arith.h"
#include "base/descriptor.h"
#include "base/error.h"

_Static_assert(sizeof(struct rd_handle) >= sizeof(CUipcMemHandle), "a handle fits");

bool rd_cuda_find(const void *at, struct rd_allocation *allocation)
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
		rd_driver.cuPointerGetAttributes(5, attributes, answers, (CUdeviceptr)at) !=
			CUDA_SUCCESS ||
		type != CU_MEMORYTYPE_DEVICE)
		return false;
	*allocation = (struct rd_allocation){
		.device = ordinal, .id = id, .base = (char *)start, .size = size
	};
	return true;
}

bool rd_cuda_pageable(const void *at)
{
	CUmemorytype type = 0;
	CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE };
	void *answers[] = { &type };

	return rd_driver.cuPointerGetAttributes(1, attributes, answers, (CUdeviceptr)at) !=
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

	return rd_driver.cuPointerGetAttributes(2, attributes, answers, (CUdeviceptr)at) ==
		       CUDA_SUCCESS &&
	       type == CU_MEMORYTYPE_HOST && seen == (CUdeviceptr)at;
}

bool rd_cuda_pinned(int device, const void *at, size_t size)
{
	bool seen;

	if (rd_cuda_enter(device))
		return false;
	seen = is_seen(at) && is_seen((const char *)at + size - 1);
	rd_cuda_leave(device, CUDA_SUCCESS, "");
	return seen;
}

/* Not on the null stream: it waits for the program's streams, where a call may wait for a peer that
   allocates. */
static CUresult zero(CUstream stream, CUdeviceptr memory, size_t size)
{
	CUresult result = rd_driver.cuMemsetD8Async(memory, 0, size, stream);

	return result == CUDA_SUCCESS ? rd_driver.cuStreamSynchronize(stream) : result;
}

int rd_cuda_alloc(int device, size_t size, void **memory)
{
	CUdeviceptr made;
	CUresult result;
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	result = rd_driver.cuMemAlloc(&made, size);
	if (result == CUDA_SUCCESS) {
		result = zero(rd_cuda_device(device)->stream, made, size);
		if (result == CUDA_SUCCESS)
			*memory = (void *)made;
		else
			rd_driver.cuMemFree(made);
	}
	return rd_cuda_leave(device, result, "allocate device memory");
}

int rd_cuda_free(void *memory)
{
	struct rd_allocation allocation;
	int err;

	if (!rd_cuda_find(memory, &allocation) || allocation.base != memory)
		return rd_fail(RONDO_INVALID, "%p is not the start of device memory", memory);
	err = rd_cuda_enter(allocation.device);
	return err ? err
		   : rd_cuda_leave(allocation.device, rd_driver.cuMemFree((CUdeviceptr)memory),
			     "free device memory");
}

int rd_cuda_export(const void *base, struct rd_handle *handle)
{
	struct rd_allocation allocation;
	CUipcMemHandle made;
	int err;

	if (!rd_cuda_find(base, &allocation))
		return rd_fail(RONDO_INVALID, "%p is no device memory", base);
	err = rd_cuda_enter(allocation.device);
	if (!err)
		err = rd_cuda_leave(allocation.device,
			rd_driver.cuIpcGetMemHandle(&made, (CUdeviceptr)base),
			"let other processes map device memory");
	if (!err)
		memcpy(handle, &made, sizeof(made));
	return err;
}

int rd_cuda_import(int device, const struct rd_handle *handle, void **base, size_t *size)
{
	CUipcMemHandle theirs;
	CUdeviceptr mapped, start;
	CUresult result;
	size_t whole;
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	memcpy(&theirs, handle, sizeof(theirs));
	result = rd_driver.cuIpcOpenMemHandle(&mapped, theirs, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (result == CUDA_SUCCESS)
		result = rd_driver.cuMemGetAddressRange(&start, &whole, mapped);
	if (result == CUDA_SUCCESS) {
		*base = (void *)mapped;
		*size = whole - (size_t)(mapped - start);
	}
	return rd_cuda_leave(device, result, "map another process's device memory");
}

void rd_cuda_drop(int device, void *base)
{
	if (rd_cuda_enter(device) == 0)
		rd_cuda_leave(device, rd_driver.cuIpcCloseMemHandle((CUdeviceptr)base),
			"unmap device memory");
}

/* The driver exports whole pages of the host's size. */
int rd_cuda_dmabuf(void *base, size_t size, int *fd, size_t *offset)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)base / page * page;
	struct rd_allocation allocation;
	CUresult result;
	int err;

	if (!rd_cuda_find(base, &allocation))
		return rd_fail(RONDO_INVALID, "%p is no device memory", base);
	err = rd_cuda_enter(allocation.device);
	if (err)
		return err;
	*offset = (uintptr_t)base - first;
	result = rd_driver.cuMemGetHandleForAddressRange(fd, first,
		rd_round_up(*offset + size, page), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	if (result == CUDA_SUCCESS)
		*fd = rd_above_stderr(*fd);
	err = rd_cuda_leave(
		allocation.device, result, "let network cards access device memory (dma-buf)");
	return result == CUDA_ERROR_NOT_SUPPORTED ? RONDO_UNSUPPORTED : err;
}

int rd_cuda_peer(int device, int other)
{
	CUdevice here, there;
	CUresult result;
	int able = 0, err = rd_cuda_enter(other);

	if (err)
		return err;
	rd_cuda_leave(other, CUDA_SUCCESS, "");
	err = rd_cuda_enter(device);
	if (err)
		return err;
	result = rd_driver.cuDeviceGet(&here, device);
	if (result == CUDA_SUCCESS)
		result = rd_driver.cuDeviceGet(&there, other);
	if (result == CUDA_SUCCESS)
		result = rd_driver.cuDeviceCanAccessPeer(&able, here, there);
	if (result == CUDA_SUCCESS && able)
		result = rd_driver.cuCtxEnablePeerAccess(rd_cuda_device(other)->context, 0);
	if (result == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
		result = CUDA_SUCCESS;
	err = rd_cuda_leave(device, result, "reach a peer device's memory");
	if (!err && !able)
		err = rd_fail(RONDO_UNSUPPORTED, "device %d cannot reach the memory of device %d",
			device, other);
	return err;
}

int rd_cuda_share(int device, void *memory, size_t size)
{
	CUdeviceptr seen = 0;
	CUresult result;
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	result = rd_driver.cuMemHostRegister(
		memory, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
		result = CUDA_SUCCESS;
	if (result == CUDA_SUCCESS)
		result = rd_driver.cuMemHostGetDevicePointer(&seen, memory, 0);
	err = rd_cuda_leave(device, result, "let devices address host memory");
	if (!err && seen != (CUdeviceptr)memory)
		err = rd_fail(RONDO_UNSUPPORTED,
			"devices here see host memory at other addresses than the host");
	return err;
}

void rd_cuda_unshare(int device, void *memory)
{
	if (rd_cuda_enter(device) == 0)
		rd_cuda_leave(device, rd_driver.cuMemHostUnregister(memory),
			"take host memory from devices");
}
