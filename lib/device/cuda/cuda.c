/* NVIDIA GPUs, by the CUDA driver. */
#include "device/device.h"
#include "device/cuda/context.h"
#include "device/cuda/stream.h"
#include "device/cuda/memory.h"

/* Blocks of a kernel that has the device to itself, by multiprocessor. */
#define BLOCKS_A_PROCESSOR 4
/* Blocks that each read the addresses in host memory: that takes as long as one launch more. */
#define READING_BLOCKS 4

_Static_assert(sizeof(struct rd_work) <= 4096 && sizeof(struct rd_transfer_work) <= 4096,
	"work is passed to a kernel by value");

/* ---- Devices ------------------------------------------------------------------------------- */

static int current(void)
{
	CUcontext context = NULL;
	CUdevice device;

	if (rd_driver_load() == 0 || rd_driver.cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
		!context || rd_driver.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
		rd_driver_serves((int)device))
		return -1;
	return (int)device;
}

static int device_attribute(int device, CUdevice_attribute attribute)
{
	CUdevice handle;
	int value = 0;

	if (rd_driver.cuDeviceGet(&handle, device) != CUDA_SUCCESS ||
		rd_driver.cuDeviceGetAttribute(&value, attribute, handle) != CUDA_SUCCESS)
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
	if (rd_cuda_enter(device))
		return 0;
	rd_cuda_leave(device, CUDA_SUCCESS, "");
	return rd_cuda_device(device)->blocks;
}

/* ---- Kernels ------------------------------------------------------------------------------- */

/* The kernel's only parameter. */
static CUresult launch(CUfunction kernel, int grid, void *stream, const void *parameter)
{
	void *parameters[] = { (void *)parameter };

	return rd_driver.cuLaunchKernel(
		kernel, (unsigned)grid, 1, 1, RD_CUDA_THREADS, 1, 1, 0, stream, parameters, NULL);
}

/* The longest step decides. */
static int stepped_blocks(const struct rd_work *work, int most)
{
	size_t count = 0, blocks;

	for (int i = 0; i < work->step_count; i++)
		if (work->steps[i].count > count)
			count = work->steps[i].count;
	blocks = count * rondo_type_size(work->type) / RD_WORK_BLOCK_SIZE + 1;
	return blocks < (size_t)most ? (int)blocks : most;
}

static CUresult run_stepped(
	const struct rd_cuda_device *device, void *stream, const struct rd_work *work)
{
	CUfunction kernel = device->work[work->type];
	int grid = stepped_blocks(work, device->processors * BLOCKS_A_PROCESSOR);
	struct rd_work pass = *work;
	CUresult result;

	if (!work->resolved || grid <= READING_BLOCKS)
		return launch(kernel, grid, stream, work);
	pass.resolves = 1;
	result = launch(kernel, 1, stream, &pass);
	pass.resolves = 0;
	pass.addresses = work->resolved;
	pass.abort_flag = NULL;
	return result == CUDA_SUCCESS ? launch(kernel, grid, stream, &pass) : result;
}

static int run(int device, void *stream, const struct rd_work *work)
{
	const struct rd_cuda_device *here = rd_cuda_device(device);
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	return rd_cuda_leave(device,
		work->fused ? launch(here->work[work->type], work->blocks, stream, work)
			    : run_stepped(here, stream, work),
		"run a kernel");
}

static int run_small(int device, void *stream, const struct rd_small_work *work)
{
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	return rd_cuda_leave(device,
		launch(rd_cuda_device(device)->small[work->type], 1, stream, work), "run a kernel");
}

static int run_steps(int device, void *stream, const struct rd_steps *steps)
{
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	return rd_cuda_leave(device,
		launch(rd_cuda_device(device)->steps[steps->type], steps->channels, stream, steps),
		"run a kernel");
}

static int run_transfers(int device, void *stream, const struct rd_transfer_work *work)
{
	int err = rd_cuda_enter(device);

	if (err)
		return err;
	return rd_cuda_leave(device,
		launch(rd_cuda_device(device)->transfers, work->blocks, stream, work),
		"run a kernel");
}

const struct rd_device_ops rd_cuda = {
	.name = "CUDA",
	.count = rd_driver_load,
	.current = current,
	.pci = pci,
	.shared_at_once = shared_at_once,
	.find = rd_cuda_find,
	.pageable = rd_cuda_pageable,
	.pinned = rd_cuda_pinned,
	.alloc = rd_cuda_alloc,
	.free = rd_cuda_free,
	.export = rd_cuda_export,
	.import = rd_cuda_import,
	.drop = rd_cuda_drop,
	.dmabuf = rd_cuda_dmabuf,
	.peer = rd_cuda_peer,
	.share = rd_cuda_share,
	.unshare = rd_cuda_unshare,
	.stream_create = rd_cuda_stream_create,
	.stream_destroy = rd_cuda_stream_destroy,
	.stream_synchronize = rd_cuda_stream_synchronize,
	.stream_query = rd_cuda_stream_query,
	.stream_check = rd_cuda_stream_check,
	.stream_captures = rd_cuda_stream_captures,
	.ignore_captures = rd_cuda_ignore_captures,
	.graph_begin = rd_cuda_graph_begin,
	.graph_end = rd_cuda_graph_end,
	.graph_launch = rd_cuda_graph_launch,
	.graph_destroy = rd_cuda_graph_destroy,
	.stream_follow = rd_cuda_stream_follow,
	.event_create = rd_cuda_event_create,
	.event_destroy = rd_cuda_event_destroy,
	.event_record = rd_cuda_event_record,
	.event_elapsed = rd_cuda_event_elapsed,
	.post_flags = rd_cuda_post_flags,
	.copy = rd_cuda_copy,
	.copy_now = rd_cuda_copy_now,
	.run = run,
	.run_small = run_small,
	.run_steps = run_steps,
	.run_transfers = run_transfers,
	.blocks = blocks,
};
