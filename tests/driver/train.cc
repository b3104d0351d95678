/*
 * The trainer's kernels, compiled for threads: blocks run one after the other, and no more of them
 * than shows whether kernels stride over what there is. The threads stay for the next launch.
 */
#include <algorithm>
#include <cmath>
#include <cuda_runtime_api.h>
#include <cstring>
#include <functional>
#include <mutex>
#include <pthread.h>
#include <tuple>

#include "machine.h"
#include "pretend.h"

using std::exp;
using std::log;

/* What a block shares is the process's: no two blocks run at a time. */
#undef __shared__
#define __shared__ static
#define TRAIN_THREADS 8
#include "train/cuda/kernels.cu"

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

template <typename... A>
static std::function<void()> bind(void (*kernel)(A...), void **parameters)
{
	return bind_at(kernel, parameters, std::index_sequence_for<A...>());
}

static const struct kernel kernels[] = {
#define KERNEL(name) \
	{ "train_" #name, [](void **parameters) { return bind(train_##name, parameters); } },
	TRAIN_KERNELS(KERNEL)
#undef KERNEL
};

static_assert(sizeof(kernels) / sizeof(*kernels) <= PRETEND_KERNELS, "all kernels have a number");

int pretend_find(const char *name)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
		if (!strcmp(name, kernels[i].name))
			return static_cast<int>(i);
	return -1;
}

void *pretend_bind(int number, unsigned blocks, void **parameters)
{
	return new launch{ kernels[number].bind(parameters), std::min(blocks, BLOCKS_MAX) };
}

/* A block's threads; who launches it is one more. */
static struct {
	pthread_barrier_t starts, meets, ends;
	const struct launch *launch;
	unsigned block;
} crew;

static void *live(void *number)
{
	threadIdx.x = static_cast<unsigned>(reinterpret_cast<uintptr_t>(number));
	blockDim.x = TRAIN_THREADS;
	block_barrier = &crew.meets;
	for (;;) {
		pthread_barrier_wait(&crew.starts);
		blockIdx.x = crew.block;
		gridDim.x = crew.launch->blocks;
		crew.launch->run();
		pthread_barrier_wait(&crew.ends);
	}
	return NULL;
}

static bool gather_crew()
{
	pthread_barrier_init(&crew.starts, NULL, TRAIN_THREADS + 1);
	pthread_barrier_init(&crew.meets, NULL, TRAIN_THREADS);
	pthread_barrier_init(&crew.ends, NULL, TRAIN_THREADS + 1);
	for (uintptr_t i = 0; i < TRAIN_THREADS; i++) {
		pthread_t id;

		pthread_create(&id, NULL, live, reinterpret_cast<void *>(i));
		pthread_detach(id);
	}
	return true;
}

void pretend_run(void *argument)
{
	struct launch *launch = static_cast<struct launch *>(argument);
	static const bool gathered = gather_crew();
	std::lock_guard<std::mutex> guard(one_block);

	crew.launch = launch;
	for (crew.block = 0; gathered && crew.block < launch->blocks; crew.block++) {
		pthread_barrier_wait(&crew.starts);
		pthread_barrier_wait(&crew.ends);
	}
	delete launch;
}
