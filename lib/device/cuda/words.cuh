/* What kernels write for each other to see, and how they see it. */
#ifndef RD_WORDS_CUH
#define RD_WORDS_CUH

#include "device/cuda/abort_flag.cuh"

/* A store of 16 bytes that has its number twice: it has come as a whole. */
static inline __device__ bool has_come(uint4 words, uint32_t number)
{
	return words.y == number && words.w == number;
}

/* If so, all that was published before it can be read. */
static inline __device__ bool has_reached(const uint32_t *flag, uint32_t number)
{
	if ((int32_t)(*(const volatile uint32_t *)flag - number) < 0)
		return false;
	__threadfence_system();
	return true;
}

/* Before set_word(), by one thread, after a barrier of the block: all that it has written. */
static inline __device__ void publish()
{
	__threadfence_system();
}

static inline __device__ void set_flag(uint32_t *flag, uint32_t number)
{
	*(volatile uint32_t *)flag = number;
}

#endif
