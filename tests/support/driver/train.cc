/*
 * The trainer's kernels, compiled for threads: blocks run one after the other, and no more of them
 * than shows whether kernels stride over what there is.
 */
#include <algorithm>
#include <cmath>
#include <cuda_runtime_api.h>
#include <cstring>
#include <functional>
#include <mutex>
#include <tuple>

#include "machine.h"
#include "emulated_driver.h"

using std::exp;
using std::log;

/* A block's shared memory is the process's: no two blocks run at a time. */
#undef __shared__
#define __shared__ static
#define TRAIN_THREADS 8
#include "train/device/cuda/kernels.cu"

#define BLOCKS_MAX 2u

static std::mutex one_block;

struct launch {
	std::function<void()> run;
	unsigned blocks;
};

struct kernel {
	const char *name;
	std::function<void()> (*bind)(void **parameters);
};

template <typename... A, size_t... I>
static std::function<void()> bind_at(
	void (*kernel)(A...), void **parameters, std::index_sequence<I...>)
{
	std::tuple<A...> values(*static_cast<A *>(parameters[I])...);

	return [kernel, values] { std::apply(kernel, values); };
}

template <typename... A> static std::function<void()> bind(void (*kernel)(A...), void **parameters)
{
	return bind_at(kernel, parameters, std::index_sequence_for<A...>());
}

static const struct kernel kernels[] = {
#define KERNEL(name) \
	{ "train_" #name, [](void **parameters) { return bind(train_##name, parameters); } },
	TRAIN_KERNELS(KERNEL)
#undef KERNEL
};

static_assert(sizeof(kernels) / sizeof(*kernels) <= EMULATED_KERNELS, "all kernels have a number");

int emulated_find(const char *name)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
		if (!strcmp(name, kernels[i].name))
			return static_cast<int>(i);
	return -1;
}

void *emulated_bind(int number, unsigned blocks, void **parameters)
{
	return new launch{ kernels[number].bind(parameters), std::min(blocks, BLOCKS_MAX) };
}

static void run_kernel(const void *parameter)
{
	static_cast<const struct launch *>(parameter)->run();
}

void emulated_run(void *argument)
{
	struct launch *launch = static_cast<struct launch *>(argument);
	std::lock_guard<std::mutex> guard(one_block);

	for (unsigned block = 0; block < launch->blocks; block++)
		grid_run({ launch->blocks, TRAIN_THREADS, run_kernel, launch, NULL, 0 }, block, 1);
	delete launch;
}
