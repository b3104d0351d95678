/* The kernel of transfers: transfer_run.h, with copies of 16 bytes at a time. */
#include "device/cuda/block.cuh"
#include "device/cuda/copy.cuh"
#include "device/transfer_run.h"

extern "C" __global__ void __launch_bounds__(THREADS, 2)
	rondo_transfers(const __grid_constant__ struct rd_transfer_work work)
{
	BLOCK_MEMORY(struct transfer_block, block);

	run_block(&work, &block);
}
