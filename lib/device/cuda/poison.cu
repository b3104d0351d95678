/* The kernel of poison: poison_run.h. */
#include "device/cuda/block.cuh"
#include "device/poison_run.h"

extern "C" __global__ void __launch_bounds__(THREADS, 2)
	rondo_poison(const __grid_constant__ struct rd_poison poison)
{
	run_poison(&poison);
}
