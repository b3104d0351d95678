/* Memory of a GPU, and copies to and from it. */
#include <string.h>

#include "train/base/fail.h"
#include "train/device/cuda/gpu.h"

/* Bytes of one copy of a get. */
#define LANDING_SIZE (256 << 10)

int gpu_wait(struct device *device)
{
	struct gpu *gpu = (struct gpu *)device;
	for (int track = 0; track < 2 && !device->error; track++)
		gpu_check(gpu, cuda.cuStreamSynchronize(gpu->tracks[track]), "compute");
	return device_failure(device);
}

int gpu_alloc(struct device *device, void **memory, size_t size)
{
	/* Rondo allocates, so that ranks on one machine reach each other's gradients. */
	if (rondo_mem_alloc_on(memory, size, device->number))
		return fail("GPU %d (%s): %s", device->number, device->name, rondo_last_error());
	return 0;
}

void gpu_free(struct device *device, void *memory)
{
	if (!memory)
		return;
	gpu_wait(device);
	rondo_mem_free(memory);
}

/* Gives a slot room for `size` bytes, after its last contents are on the GPU. */
static bool take_slot(struct gpu *gpu, struct slot *slot, size_t size)
{
	if (!gpu_check(gpu, cuda.cuEventSynchronize(slot->copied), "copy to it"))
		return false;
	if (size <= slot->size)
		return true;
	if (slot->memory)
		cuda.cuMemFreeHost(slot->memory);
	*slot = (struct slot){ .copied = slot->copied };
	if (!gpu_check(gpu, cuda.cuMemAllocHost(&slot->memory, size), "pin host memory for it"))
		return false;
	slot->size = size;
	return true;
}

/* To pin or unpin memory, the driver may hold its lock while it waits for the device. A bucket
   under way there waits for a peer, which may wait for a thread that needs the lock. */
int gpu_reserve(struct device *device, size_t size)
{
	struct gpu *gpu = (struct gpu *)device;
	for (int s = 0; s < SLOTS && !device->error; s++)
		take_slot(gpu, &gpu->slots[s], size);
	return device_failure(device);
}

void gpu_put(struct device *device, void *to, const void *from, size_t size)
{
	struct gpu *gpu = (struct gpu *)device;
	struct slot *slot = &gpu->slots[gpu->puts++ % SLOTS];
	CUstream stream = gpu->tracks[COMPUTATION];
	if (device->error || !size || !take_slot(gpu, slot, size))
		return;
	memcpy(slot->memory, from, size);
	if (gpu_check(gpu,
		    cuda.cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)slot->memory, size, stream),
		    "copy to it"))
		gpu_check(gpu, cuda.cuEventRecord(slot->copied, stream), "copy to it");
}

/* Copies through pinned memory: for other memory the driver may hold its lock while it waits for
   the computation. That may wait for a bucket, and the bucket for a thread that needs the lock. */
int gpu_get(struct device *device, void *to, const void *from, size_t size)
{
	struct gpu *gpu = (struct gpu *)device;
	CUstream stream = gpu->tracks[COMPUTATION];
	for (size_t at = 0, part; at < size && !device->error; at += part) {
		part = size - at < LANDING_SIZE ? size - at : LANDING_SIZE;
		if (gpu_check(gpu,
			    cuda.cuMemcpyAsync((CUdeviceptr)gpu->landing, (CUdeviceptr)from + at,
				    part, stream),
			    "copy from it") &&
			gpu_check(gpu, cuda.cuStreamSynchronize(stream), "compute"))
			memcpy((char *)to + at, gpu->landing, part);
	}
	return gpu_wait(device);
}

void gpu_copy(struct device *device, void *to, const void *from, size_t size)
{
	struct gpu *gpu = (struct gpu *)device;
	if (!device->error && size)
		gpu_check(gpu,
			cuda.cuMemcpyAsync(
				(CUdeviceptr)to, (CUdeviceptr)from, size, gpu->tracks[COMPUTATION]),
			"copy in its memory");
}

void gpu_clear(struct device *device, void *memory, size_t size)
{
	struct gpu *gpu = (struct gpu *)device;
	if (!device->error && size)
		gpu_check(gpu,
			cuda.cuMemsetD8Async(
				(CUdeviceptr)memory, 0, size, gpu->tracks[COMPUTATION]),
			"clear memory");
}

bool gpu_memory_open(struct gpu *gpu)
{
	for (int s = 0; s < SLOTS; s++)
		if (!gpu_make_event(gpu, &gpu->slots[s].copied, CU_EVENT_DISABLE_TIMING))
			return false;
	return gpu_check(
		gpu, cuda.cuMemAllocHost(&gpu->landing, LANDING_SIZE), "pin host memory for it");
}

void gpu_memory_close(struct gpu *gpu)
{
	for (int s = 0; s < SLOTS; s++) {
		if (gpu->slots[s].memory)
			cuda.cuMemFreeHost(gpu->slots[s].memory);
		if (gpu->slots[s].copied)
			cuda.cuEventDestroy(gpu->slots[s].copied);
	}
	if (gpu->landing)
		cuda.cuMemFreeHost(gpu->landing);
	for (int s = 0; s < SCRATCH_COUNT; s++)
		rondo_mem_free(gpu->scratch[s].memory);
}
