/*
 * The GPU's own instructions and sizes. tests/support/driver/machine.h has the
 * same for threads of the host, so that the kernels run in tests.
 */
#ifndef RD_MACHINE_CUH
#define RD_MACHINE_CUH

#include <stdint.h>

#define THREADS 512
/* The abort flag lies in host memory, far away. */
#define POLLS_PER_CHECK 1024

/* Memory that a block's threads share. */
#define BLOCK_MEMORY(type, name) __shared__ type name

static __device__ uint32_t load_flag(const uint32_t *flag)
{
	return *(const volatile uint32_t *)flag;
}

static __device__ void set_flag(uint32_t *flag, uint32_t number)
{
	*(volatile uint32_t *)flag = number;
}

/* They bypass the first-level cache, which misses what peers write. */
static __device__ void store_words(uint32_t *at, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(a), "r"(b),
		     "r"(c), "r"(d)
		     : "memory");
}

static __device__ uint4 load_words(const uint32_t *at)
{
	uint4 words;

	asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
		     : "l"(at)
		     : "memory");
	return words;
}

/* __threadfence_system() is fence.sc.sys, which takes longer: it also puts a store before a later
   load. No kernel here relies on that. */
static __device__ void fence()
{
	asm volatile("fence.acq_rel.sys;" ::: "memory");
}

static __device__ uint64_t clock_ns()
{
	uint64_t now;

	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
	return now;
}

/* A NaN wins, and -0 is less than +0. */
static __device__ float least_of(float a, float b)
{
	float result;

	asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
	return result;
}

static __device__ float greatest_of(float a, float b)
{
	float result;

	asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
	return result;
}

#endif
