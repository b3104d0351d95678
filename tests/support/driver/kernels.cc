/* The kernels of lib/device/cuda/kernels.cu, compiled for threads. */
#include <cmath>
#include <cuda_runtime_api.h>

using std::signbit;

#include "machine.h"
#include "emulated_driver.h"

#define RONDO_MACHINE "machine.h"
#include "device/cuda/kernels.cu"

/* The blocks of a kernel whose barriers are the stream's, but one that resolves addresses. */
#define STEPPED_BLOCKS 2

static void run_kernel(const void *parameter)
{
	const struct rd_work &work = *(const struct rd_work *)parameter;

	switch (work.type) {
#define RUN(name, ctype, text) \
	case name: \
		return KERNEL_OF(rondo_work_, name)(work);
		RONDO_TYPES(RUN)
	}
}

static void run_small_kernel(const void *parameter)
{
	const struct rd_small_work &work = *(const struct rd_small_work *)parameter;

	switch (work.type) {
#define RUN_SMALL(name, ctype, text) \
	case name: \
		return KERNEL_OF(rondo_small_, name)(work);
		RONDO_TYPES(RUN_SMALL)
	}
}

static int blocks_of(const struct rd_work &work)
{
	return work.fused ? work.blocks : work.resolves ? 1 : STEPPED_BLOCKS;
}

void emulated_work(const void *parameter)
{
	const struct rd_work *work = static_cast<const struct rd_work *>(parameter);
	const struct emulated_grid grid = { blocks_of(*work), 512, EMULATED_LIBRARY_REGISTERS,
		work->fused ? &work->abort_flag->stop : NULL, work->timeout_ns };
	struct emulated_room room;

	emulated_start(&room, &grid);
	run_grid<struct block>((unsigned)grid.blocks, THREADS, run_kernel, work);
	emulated_end(&room);
}

EXPORT void emulated_small(const void *parameter)
{
	const struct rd_small_work *work = static_cast<const struct rd_small_work *>(parameter);
	const struct emulated_grid grid = { 1, 512, EMULATED_LIBRARY_REGISTERS,
		&work->abort_flag->stop, work->timeout_ns };
	struct emulated_room room;

	emulated_start(&room, &grid);
	/* Its threads share nothing. */
	run_grid<char>(1, THREADS, run_small_kernel, work);
	emulated_end(&room);
}
