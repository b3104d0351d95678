/* Modules of the emulated driver, and the launch of their kernels. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/small_work.h"
#include "device/steps.h"
#include "device/transfer_work.h"
#include "device/work.h"
#include "program.h"
#include "room.h"
#include "state.h"
#include "worker.h"

#define LIBRARY_THREADS 512
#define OWN_THREADS 256

/* The library's kernels: of these kinds, by type, or the one of its kind. */
enum kind { WORK, SMALL, STEPS, KINDS, TRANSFERS = KINDS };

static const struct {
	const char *name;
	size_t parameter; /* bytes of its only one */
	void (*run)(const void *parameter);
} kinds[] = {
	[WORK] = { "work", sizeof(struct rd_work), emulated_work },
	[SMALL] = { "small", sizeof(struct rd_small_work), emulated_small },
	[STEPS] = { "steps", sizeof(struct rd_steps), emulated_steps },
	[TRANSFERS] = { "transfers", sizeof(struct rd_transfer_work), emulated_transfers },
};

/* One of the library's, for a type, or one of the program's. */
struct CUfunc_st {
	enum kind kind;
	int type;
	atomic_bool loaded;
	int own; /* 1 + the number of the trainer's */
	const struct program_kernel *program; /* of programs that test the driver */
};

static struct CUfunc_st kernels[KINDS][RONDO_TYPE_COUNT], transfers = { .kind = TRANSFERS };
static struct CUfunc_st own_kernels[EMULATED_KERNELS], programs[PROGRAM_KERNELS];
static atomic_size_t parameter_bytes;

static void list_kernels(void)
{
	for (int kind = 0; kind < KINDS; kind++)
		for (int type = 0; type < RONDO_TYPE_COUNT; type++) {
			kernels[kind][type].kind = (enum kind)kind;
			kernels[kind][type].type = type;
		}
	for (int i = 0; i < EMULATED_KERNELS; i++)
		own_kernels[i].own = 1 + i;
	for (int i = 0; i < PROGRAM_KERNELS; i++)
		programs[i].program = &program_kernels[i];
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	static pthread_once_t listed = PTHREAD_ONCE_INIT;

	pthread_once(&listed, list_kernels);
	if (current() >= 0 && capability(current()) < 80)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	/* A fatbin begins with this magic number. */
	*module = (CUmodule)kernels;
	return done(current() < 0 || *(const uint32_t *)image != 0xba55ed50);
}

/* Every module has all kernels. */
EXPORT CUresult cuModuleGetFunction(CUfunction *kernel, CUmodule module, const char *name)
{
	int number = emulated_find(name), program = program_find(name);
	char known[32];

	if ((void *)module != kernels)
		return CUDA_ERROR_INVALID_VALUE;
	if (number >= 0) {
		*kernel = &own_kernels[number];
		return done(0);
	}
	if (program >= 0) {
		*kernel = &programs[program];
		return done(0);
	}
	if (strcmp(name, "rondo_transfers") == 0) {
		*kernel = &transfers;
		return done(0);
	}
	for (int kind = 0; kind < KINDS; kind++)
		for (int type = 0; type < RONDO_TYPE_COUNT; type++) {
			snprintf(known, sizeof(known), "rondo_%s_%s", kinds[kind].name,
				rondo_type_name(type));
			if (strcmp(name, known) != 0)
				continue;
			*kernel = &kernels[kind][type];
			return done(0);
		}
	return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
	return done((void *)module != kernels);
}

static int registers_of(CUfunction kernel)
{
	return kernel->program ? kernel->program->registers
	       : kernel->own   ? EMULATED_TRAINER_REGISTERS
			       : EMULATED_LIBRARY_REGISTERS;
}

EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction kernel)
{
	kernel->loaded = true;
	*value = registers_of(kernel);
	return done(attribute != CU_FUNC_ATTRIBUTE_NUM_REGS);
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *blocks, CUfunction kernel, int threads, size_t memory)
{
	*blocks = room_blocks(registers_of(kernel), threads);
	return done(memory != 0);
}

/* ---- Kernels of the program's own ---------------------------------------------------------- */

struct launch {
	struct emulated_grid grid;
	void (*run)(void *argument);
	void *argument;
};

static void run_launch(void *argument)
{
	struct launch *launch = argument;
	struct emulated_room room;

	emulated_start(&room, &launch->grid);
	launch->run(launch->argument);
	emulated_end(&room);
	free(launch);
}

/* An item's own part. */
static int queue_launch(CUstream stream, const struct emulated_grid *grid,
	void (*run)(void *argument), void *argument)
{
	struct launch *launch = malloc(sizeof(*launch));

	if (!launch)
		return 1;
	*launch = (struct launch){ *grid, run, argument };
	return queue_call(stream, run_launch, launch);
}

EXPORT int emulated_launch(
	void *stream, const struct emulated_grid *grid, void (*run)(void *argument), void *argument)
{
	struct item *item;

	if (is_lost() || item_begin(stream, ITEM_KERNEL, &item))
		return 1;
	item_end(item, queue_launch(stream, grid, run, argument));
	return 0;
}

static int launch_own(CUstream stream, CUfunction kernel, unsigned blocks, void **parameters)
{
	struct emulated_grid grid = {
		.blocks = (int)blocks, .threads = OWN_THREADS, .registers = registers_of(kernel)
	};

	if (kernel->own)
		return queue_launch(stream, &grid, emulated_run,
			emulated_bind(kernel->own - 1, blocks, parameters));

	void *bound = program_bind(kernel->program, parameters, &grid);

	return bound ? queue_launch(stream, &grid, kernel->program->run, bound) : 1;
}

/* ---- Launches ------------------------------------------------------------------------------ */

/* Stepped kernels of more blocks read no host memory: their reads would come one by one. */
#define READING_BLOCKS 4

/* Fused kernels of all ranks on a device must find room on it. */
static bool makes_sense(CUfunction kernel, unsigned grid, const void *parameter)
{
	const struct rd_work *work = parameter;
	const struct rd_small_work *small = parameter;
	const struct rd_steps *steps = parameter;
	const struct rd_transfer_work *moves = parameter;

	if (kernel->own || kernel->program)
		return true;
	switch (kernel->kind) {
	case SMALL:
		return small->type == kernel->type && grid == 1 && is_pinned(small->abort_flag);
	case STEPS:
		return steps->type == kernel->type && (int)grid == steps->channels &&
		       is_pinned(steps->abort_flag);
	case TRANSFERS:
		return (int)grid == moves->blocks && is_pinned(moves->abort_flag) &&
		       (!moves->more || is_pinned(moves->more));
	default:
		if (work->type != kernel->type || (work->fused && (int)grid != work->blocks))
			return false;
		if (work->fused || grid <= READING_BLOCKS)
			return is_pinned(work->abort_flag);
		return !work->abort_flag && work->addresses == work->resolved;
	}
}

static int queue_kernel(CUstream stream, CUfunction kernel, unsigned grid, void **parameters)
{
	if (kernel->own || kernel->program)
		return launch_own(stream, kernel, grid, parameters);
	atomic_fetch_add(&parameter_bytes, kinds[kernel->kind].parameter);
	return worker_run(
		stream, kinds[kernel->kind].run, parameters[0], kinds[kernel->kind].parameter);
}

EXPORT size_t emulated_parameter_bytes(void)
{
	return atomic_load(&parameter_bytes);
}

EXPORT CUresult cuLaunchKernel(CUfunction kernel, unsigned grid, unsigned grid_y, unsigned grid_z,
	unsigned block, unsigned block_y, unsigned block_z, unsigned memory, CUstream stream,
	void **parameters, void **extra)
{
	struct item *item;
	CUresult result;

	count_launch();
	if (is_lost())
		return CUDA_ERROR_LAUNCH_FAILED;
	if (current() < 0 || grid < 1 || grid_y != 1 || grid_z != 1 ||
		block != (kernel->own || kernel->program ? OWN_THREADS : LIBRARY_THREADS) ||
		block_y != 1 || block_z != 1 || memory || extra ||
		!makes_sense(kernel, grid, parameters[0]))
		return CUDA_ERROR_INVALID_VALUE;
	if (!kernel->loaded && emulated_load())
		return CUDA_ERROR_LAUNCH_TIMEOUT;
	kernel->loaded = true;
	result = item_begin(stream, ITEM_KERNEL, &item);
	if (result)
		return result;
	return item_end(item, queue_kernel(stream, kernel, grid, parameters));
}
