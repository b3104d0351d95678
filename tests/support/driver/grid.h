/* The threads of a kernel, as a launch makes them: coroutines of the thread that runs it (grid.cc).
 */
#ifndef GRID_H
#define GRID_H

#include <stddef.h>
#include <vector>

struct place {
	unsigned x;
};

extern thread_local struct place threadIdx, blockIdx, blockDim, gridDim;
/* Memory that the calling thread's block shares. */
extern thread_local void *block_memory;

/* Waits for all threads of the block. */
void grid_meet();
/* Lets others go on, where one polls for what a peer does. */
void grid_yield();

struct grid {
	unsigned blocks, threads; /* threads of a block */
	void (*kernel)(const void *parameter);
	const void *parameter;
	char *memory; /* of all blocks */
	size_t memory_size; /* of one */
};

/* Runs some of a grid's blocks to their end. */
void grid_run(const struct grid &grid, unsigned first, unsigned count);

/* Runs it all. Memory: what a block's threads share. */
template <typename Memory>
static void run_grid(
	unsigned blocks, unsigned threads, void (*kernel)(const void *), const void *parameter)
{
	std::vector<Memory> memories(blocks);

	grid_run({ blocks, threads, kernel, parameter, (char *)memories.data(), sizeof(Memory) }, 0,
		blocks);
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
#define KERNEL_OF_RONDO_I16(prefix) prefix##i16
#define KERNEL_OF_RONDO_U16(prefix) prefix##u16
/* The library replaces these types. */
#define KERNEL_OF_RONDO_BOOL(prefix) prefix##u8
#define KERNEL_OF_RONDO_COMPLEX64(prefix) prefix##f32
#define KERNEL_OF_RONDO_COMPLEX128(prefix) prefix##f64

#endif
