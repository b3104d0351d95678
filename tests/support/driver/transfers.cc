/* The kernel of lib/device/cuda/transfers.cu, compiled for threads. */
#include <cuda_runtime_api.h>

#include "machine.h"
#include "emulated_driver.h"

#define RONDO_MACHINE "machine.h"
#include "device/cuda/transfers.cu"

static void run_kernel(const void *parameter)
{
	rondo_transfers(*(const struct rd_transfer_work *)parameter);
}

void emulated_transfers(const void *parameter)
{
	const struct rd_transfer_work *work =
		static_cast<const struct rd_transfer_work *>(parameter);
	const struct emulated_grid grid = { work->blocks, 512, EMULATED_LIBRARY_REGISTERS,
		&work->abort_flag->stop, work->timeout_ns };
	struct emulated_room room;

	emulated_start(&room, &grid);
	run_grid<struct transfer_block>((unsigned)work->blocks, THREADS, run_kernel, work);
	emulated_end(&room);
}
