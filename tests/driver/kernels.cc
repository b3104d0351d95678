/* The kernels of lib/cuda, compiled for threads: each launch is a grid of them. */
#include <cmath>
#include <cuda_runtime_api.h>
#include <vector>

using std::signbit;

#include "machine.h"

thread_local struct place threadIdx, blockIdx, blockDim, gridDim;
thread_local pthread_barrier_t *block_barrier;
thread_local void *block_memory;

#define RONDO_MACHINE "machine.h"
#include "lib/cuda/kernels.cu"

extern "C" void rd_emulated_run(const struct rd_work *work);

/* Of a kernel whose barriers are the stream's. */
#define STEPPED_BLOCKS 2

struct thread {
	pthread_t id;
	const struct rd_work *work;
	unsigned thread, block, blocks;
	pthread_barrier_t *barrier;
	void *memory;
};

static void run_kernel(const struct rd_work &work)
{
	switch (work.type) {
#define RUN(name, ctype, text) \
	case name: \
		return RD_KERNEL_OF(name)(work);
#define RD_KERNEL_OF(name) kernel_of_##name
#define kernel_of_RONDO_I8 rondo_work_i8
#define kernel_of_RONDO_U8 rondo_work_u8
#define kernel_of_RONDO_I32 rondo_work_i32
#define kernel_of_RONDO_U32 rondo_work_u32
#define kernel_of_RONDO_I64 rondo_work_i64
#define kernel_of_RONDO_U64 rondo_work_u64
#define kernel_of_RONDO_F16 rondo_work_f16
#define kernel_of_RONDO_BF16 rondo_work_bf16
#define kernel_of_RONDO_F32 rondo_work_f32
#define kernel_of_RONDO_F64 rondo_work_f64
#define kernel_of_RONDO_F8E4M3 rondo_work_f8e4m3
#define kernel_of_RONDO_F8E5M2 rondo_work_f8e5m2
		RONDO_TYPES(RUN)
	}
}

static void *live(void *argument)
{
	const struct thread *thread = (const struct thread *)argument;

	threadIdx.x = thread->thread;
	blockIdx.x = thread->block;
	blockDim.x = THREADS;
	gridDim.x = thread->blocks;
	block_barrier = thread->barrier;
	block_memory = thread->memory;
	run_kernel(*thread->work);
	return NULL;
}

/* In place of the one of lib/emulated_run.c. */
void rd_emulated_run(const struct rd_work *work)
{
	unsigned blocks = work->fused ? (unsigned)work->blocks : STEPPED_BLOCKS;
	std::vector<struct thread> threads(blocks * THREADS);
	std::vector<pthread_barrier_t> barriers(blocks);
	std::vector<struct block> memories(blocks);

	for (unsigned i = 0; i < blocks; i++)
		pthread_barrier_init(&barriers[i], NULL, THREADS);
	for (unsigned i = 0; i < blocks * THREADS; i++) {
		threads[i] = { 0, work, i % THREADS, i / THREADS, blocks, &barriers[i / THREADS],
			&memories[i / THREADS] };
		pthread_create(&threads[i].id, NULL, live, &threads[i]);
	}
	for (unsigned i = 0; i < blocks * THREADS; i++)
		pthread_join(threads[i].id, NULL);
	for (unsigned i = 0; i < blocks; i++)
		pthread_barrier_destroy(&barriers[i]);
}
