/* The kernel of lib/device/cuda/transfers.cu, compiled for threads. */
#include <cuda_runtime_api.h>

#include "machine.h"

#define RONDO_MACHINE "machine.h"
#include "device/cuda/transfers.cu"

extern "C" void rd_emulated_transfers(const struct rd_transfer_work *work);

static void run_kernel(const void *parameter)
{
	rondo_transfers(*(const struct rd_transfer_work *)parameter);
}

/* In place of the one of lib/device/emulated/transfers.c. */
void rd_emulated_transfers(const struct rd_transfer_work *work)
{
	run_grid<struct transfer_block>((unsigned)work->blocks, THREADS, run_kernel, work);
}
