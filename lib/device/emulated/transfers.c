/* The kernel of lib/device/cuda/transfers.cu on an emulated GPU: transfer_run.h. */
#include "device/emulated/kernels.h"
#include "device/emulated/machine.h"
#include "device/transfer_run.h"

void rd_emulated_transfers(const struct rd_transfer_work *work)
{
	struct transfer_block block;

	run_block(work, &block);
}
