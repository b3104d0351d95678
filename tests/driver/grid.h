/* A grid of threads, as a launch makes it. */
#ifndef GRID_H
#define GRID_H

#include "machine.h"

#include <vector>

/* One thread of a kernel, and what it is given. */
struct thread {
	pthread_t id;
	void (*kernel)(const void *parameter);
	const void *parameter;
	unsigned thread, block, blocks;
	pthread_barrier_t *barrier;
	void *memory;
};

static void *live(void *argument)
{
	const struct thread *thread = (const struct thread *)argument;

	threadIdx.x = thread->thread;
	blockIdx.x = thread->block;
	blockDim.x = THREADS;
	gridDim.x = thread->blocks;
	block_barrier = thread->barrier;
	block_memory = thread->memory;
	thread->kernel(thread->parameter);
	return NULL;
}

/* Runs it to its end. Memory: what a block's threads share. */
template <typename Memory>
static void run_grid(unsigned blocks, void (*kernel)(const void *), const void *parameter)
{
	std::vector<struct thread> threads(blocks * THREADS);
	std::vector<pthread_barrier_t> barriers(blocks);
	std::vector<Memory> memories(blocks);

	for (unsigned i = 0; i < blocks; i++)
		pthread_barrier_init(&barriers[i], NULL, THREADS);
	for (unsigned i = 0; i < blocks * THREADS; i++) {
		threads[i] = { 0, kernel, parameter, i % THREADS, i / THREADS, blocks,
			&barriers[i / THREADS], &memories[i / THREADS] };
		pthread_create(&threads[i].id, NULL, live, &threads[i]);
	}
	for (unsigned i = 0; i < blocks * THREADS; i++)
		pthread_join(threads[i].id, NULL);
	for (unsigned i = 0; i < blocks; i++)
		pthread_barrier_destroy(&barriers[i]);
}

/* The kernel of each type, by the prefix of its name. */
#define KERNEL_OF(prefix, type) KERNEL_OF_##type(prefix)
#define KERNEL_OF_RONDO_I8(prefix) prefix##i8
#define KERNEL_OF_RONDO_U8(prefix) prefix##u8
#define KERNEL_OF_RONDO_I32(prefix) prefix##i32
#define KERNEL_OF_RONDO_U32(prefix) prefix##u32
#define KERNEL_OF_RONDO_I64(prefix) prefix##i64
#define KERNEL_OF_RONDO_U64(prefix) prefix##u64
#define KERNEL_OF_RONDO_F16(prefix) prefix##f16
#define KERNEL_OF_RONDO_BF16(prefix) prefix##bf16
#define KERNEL_OF_RONDO_F32(prefix) prefix##f32
#define KERNEL_OF_RONDO_F64(prefix) prefix##f64
#define KERNEL_OF_RONDO_F8E4M3(prefix) prefix##f8e4m3
#define KERNEL_OF_RONDO_F8E5M2(prefix) prefix##f8e5m2

#endif
