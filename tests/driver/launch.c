/* Modules of the emulated driver, and the launch of their kernels. */
#include <stdio.h>
#include <string.h>

#include "state.h"

/* One of the library's, for a type, or one of the trainer's. */
struct CUfunc_st {
	int type;
	bool steps, transfers; /* else work */
	bool loaded;
	int own; /* 1 + the number of the trainer's */
};

static struct CUfunc_st kernels[2][RONDO_TYPE_COUNT], transfers = { .transfers = true };

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	if (current() >= 0 && capability(current()) < 80)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	/* A fatbin begins with this magic number. */
	*module = (CUmodule)kernels;
	return done(current() < 0 || *(const uint32_t *)image != 0xba55ed50);
}

/* Every module has all kernels. */
EXPORT CUresult cuModuleGetFunction(CUfunction *kernel, CUmodule module, const char *name)
{
	static const char *const kinds[] = { "work", "steps" };
	static struct CUfunc_st own[EMULATED_KERNELS];
	int number = emulated_find(name);
	char known[32];

	if ((void *)module != kernels)
		return CUDA_ERROR_INVALID_VALUE;
	if (number >= 0) {
		own[number].own = 1 + number;
		*kernel = &own[number];
		return done(0);
	}
	if (strcmp(name, "rondo_transfers") == 0) {
		*kernel = &transfers;
		return done(0);
	}
	for (int kind = 0; kind < 2; kind++)
		for (int type = 0; type < RONDO_TYPE_COUNT; type++) {
			snprintf(known, sizeof(known), "rondo_%s_%s", kinds[kind],
				rondo_type_name(type));
			if (strcmp(name, known) != 0)
				continue;
			kernels[kind][type] = (struct CUfunc_st){ .type = type, .steps = kind };
			*kernel = &kernels[kind][type];
			return done(0);
		}
	return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
	return done((void *)module != kernels);
}

EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction kernel)
{
	kernel->loaded = true;
	*value = 56;
	return done(!kernel || attribute != CU_FUNC_ATTRIBUTE_NUM_REGS);
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *blocks, CUfunction kernel, int threads, size_t memory)
{
	*blocks = 1;
	return done(!kernel || threads != 512 || memory);
}

EXPORT CUresult cuLaunchKernel(CUfunction kernel, unsigned grid, unsigned grid_y, unsigned grid_z,
	unsigned block, unsigned block_y, unsigned block_z, unsigned memory, CUstream stream,
	void **parameters, void **extra)
{
	const struct rd_work *work = parameters[0];
	const struct rd_steps *steps = parameters[0];
	const struct rd_transfer_work *moves = parameters[0];

	count_launch();
	if (is_lost())
		return CUDA_ERROR_LAUNCH_FAILED;
	if (current() < 0 || grid < 1 || grid_y != 1 || grid_z != 1 ||
		block != (kernel->own ? 256 : 512) || block_y != 1 || block_z != 1 || memory ||
		extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (!kernel->loaded && emulated_load())
		return CUDA_ERROR_LAUNCH_TIMEOUT;
	kernel->loaded = true;
	wait_for_locks();
	if (kernel->own)
		return cuLaunchHostFunc(
			stream, emulated_run, emulated_bind(kernel->own - 1, grid, parameters));
	if (kernel->steps) {
		if (steps->type != kernel->type || (int)grid != steps->channels ||
			!is_pinned(steps->abort_flag))
			return CUDA_ERROR_INVALID_VALUE;
		return done(rd_emulated.run_steps(current(), stream, steps));
	}
	if (kernel->transfers) {
		if ((int)grid != moves->blocks || !is_pinned(moves->abort_flag) ||
			(moves->more && !is_pinned(moves->more)))
			return CUDA_ERROR_INVALID_VALUE;
		return done(rd_emulated.run_transfers(current(), stream, moves));
	}
	/* Fused kernels of all ranks on a device must find room on it. */
	if (work->type != kernel->type || (work->fused && (int)grid != work->blocks) ||
		!is_pinned(work->abort_flag))
		return CUDA_ERROR_INVALID_VALUE;
	return done(rd_emulated.run(current(), stream, work));
}
