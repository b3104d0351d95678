/* The kernels of lib/device/cuda/plans.cu, compiled for threads. */
#include <cmath>
#include <cuda_runtime_api.h>

using std::signbit;

#include "machine.h"
#include "emulated_driver.h"

#define RONDO_MACHINE "machine.h"
#include "device/cuda/plans.cu"

static void run_kernel(const void *parameter)
{
	const struct rd_steps &steps = *(const struct rd_steps *)parameter;

	switch (steps.type) {
#define RUN(name, ctype, text) \
	case name: \
		return KERNEL_OF(rondo_steps_, name)(steps);
		RONDO_TYPES(RUN)
	}
}

EXPORT void emulated_steps(const void *parameter)
{
	const struct rd_steps *steps = static_cast<const struct rd_steps *>(parameter);
	const struct emulated_grid grid = { steps->channels, 512, EMULATED_LIBRARY_REGISTERS,
		&steps->abort_flag->stop, steps->timeout_ns };
	struct emulated_room room;

	emulated_start(&room, &grid);
	run_grid<struct channel>((unsigned)steps->channels, THREADS, run_kernel, steps);
	emulated_end(&room);
}
