/* The kernel of lib/device/cuda/poison.cu on an emulated GPU: poison_run.h. */
#include "device/emulated/kernels.h"
#include "device/emulated/machine.h"
#include "device/poison_run.h"

void rd_emulated_poison(const struct rd_poison *poison)
{
	run_poison(poison);
}
