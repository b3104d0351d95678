/* ctest label: threads */
/* Calls on memory of cudaMallocAsync(), which other processes cannot map, on some ranks or on all.
   On the tests' driver. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>

#include "api/stream.h"
#include "device/device_stream.h"
#include "gpus.h"
#include "variants.h"

TestSuite(gpu_pools, .init = gpu_die_with_parent);

#define RANKS 3
#define BYTES ((size_t)RANKS * (COUNT_MAX + 1) * sizeof(float))

struct pools {
	int (*retain)(void **context, int device);
	int (*set)(void *context);
	int (*alloc)(void **memory, size_t size, void *stream);
	int (*free)(void *memory, void *stream);
};

static bool find_pools(struct pools *pools)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);

	if (!driver)
		return false;
	*(void **)&pools->retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
	*(void **)&pools->set = dlsym(driver, "cuCtxSetCurrent");
	*(void **)&pools->alloc = dlsym(driver, "cuMemAllocAsync");
	*(void **)&pools->free = dlsym(driver, "cuMemFreeAsync");
	return pools->retain && pools->set && pools->alloc && pools->free;
}

/* Rank 0's input is pooled, and rank 1's input and output. */
static int open_pooled(struct rank_env *env, const struct pools *pools, struct memory *memory)
{
	int wrong = open_memory(env, memory);
	void *context, *stream;

	if (wrong || env->rank > 1)
		return wrong;
	stream = rd_stream_device_stream(memory->stream)->stream;
	rondo_mem_free(memory->in);
	TRY(pools->retain(&context, env->rank % rondo_device_count()));
	TRY(pools->set(context));
	TRY(pools->alloc((void **)&memory->in, BYTES, stream));
	if (env->rank == 1) {
		rondo_mem_free(memory->out);
		TRY(pools->alloc((void **)&memory->out, BYTES, stream));
	}
	return rondo_stream_synchronize(memory->stream);
}

static void close_pooled(struct rank_env *env, const struct pools *pools, struct memory *memory)
{
	void *stream = rd_stream_device_stream(memory->stream)->stream;

	if (env->rank <= 1) {
		pools->free(memory->in, stream);
		memory->in = NULL;
	}
	if (env->rank == 1) {
		pools->free(memory->out, stream);
		memory->out = NULL;
	}
	close_memory(memory);
}

static int try_all(struct rank_env *env)
{
	struct pools pools;
	struct memory memory;
	struct rd_handle handle;
	int wrong = 0;

	if (!find_pools(&pools) || open_pooled(env, &pools, &memory))
		return world_report(env, "no memory: %s", rondo_last_error());
	if (env->rank == 0 && !rd_device(true)->export(memory.in, &handle))
		wrong = world_report(env, "pooled memory has a handle");
	for (int collective = 0; collective < RD_COLLECTIVE_COUNT && !wrong; collective++)
		for (int in_place = 0; in_place < 2 && !wrong && collective != RD_TRANSFER;
			in_place++)
			wrong = try_call(
				env, &memory, collective, RONDO_SUM, COUNT_MAX, in_place, true);
	close_pooled(env, &pools, &memory);
	return wrong;
}

Test(gpu_pools, every_collective_takes_memory_that_has_no_handle, .timeout = 120)
{
	static const struct variant ways[] = {
		{ "2", "auto", true, NULL, 0 },
		{ "2", "stepped", true, NULL, 0 },
		{ "2", "auto", false, NULL, 0 },
	};

	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		cr_expect_eq(try_body(&ways[i], RANKS, try_all, 0), 0, "%s %s", ways[i].kernel,
			ways[i].threads ? "threads" : "processes");
	}
}
