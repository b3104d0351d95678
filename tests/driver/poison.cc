/* The kernel of lib/device/cuda/poison.cu, compiled for threads. */
#include <cuda_runtime_api.h>

#include "machine.h"
#include "emulated_driver.h"

#define RONDO_MACHINE "machine.h"
#include "device/cuda/poison.cu"

extern "C" void rd_emulated_poison(const struct rd_poison *poison);

static void run_kernel(const void *parameter)
{
	rondo_poison(*(const struct rd_poison *)parameter);
}

/* In place of the one of lib/device/emulated/poison.c. */
void rd_emulated_poison(const struct rd_poison *poison)
{
	const struct emulated_grid grid = { RD_POISON_BLOCKS, 512, EMULATED_LIBRARY_REGISTERS, NULL,
		0 };
	struct emulated_room room;

	emulated_start(&room, &grid);
	run_grid<char>(RD_POISON_BLOCKS, THREADS, run_kernel, poison);
	emulated_end(&room);
}
