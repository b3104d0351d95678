/* A GPU made of threads: what lib/device/cuda/machine.cuh and nvcc give to kernels. */
#ifndef MACHINE_H
#define MACHINE_H

#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/tsan.h"
#include "grid.h"

#undef __launch_bounds__
#define __launch_bounds__(...)

/* One for each rank, and no more. */
#define THREADS 16
#define POLLS_PER_CHECK 16

#define BLOCK_MEMORY(type, name) type &name = *(type *)block_memory

static inline void __syncthreads()
{
	grid_meet();
}

/* A GPU stops a kernel that accesses a unit across its alignment. */
template <typename Unit> static inline Unit *aligned(Unit *at)
{
	if ((uintptr_t)at % sizeof(Unit) != 0) {
		fputs("a kernel accesses memory that is not aligned\n", stderr);
		abort();
	}
	return at;
}

template <typename Unit> static inline Unit __ldcs(const Unit *at)
{
	return *aligned(at);
}

template <typename Unit> static inline void __stcs(Unit *at, Unit unit)
{
	*aligned(at) = unit;
}

static inline uint4 __ldcg(const uint4 *at)
{
	return *aligned(at);
}

static inline void __stcg(uint4 *at, uint4 words)
{
	*aligned(at) = words;
}

/* Each store below releases what precedes it, and each load acquires. */
static inline void fence()
{
}

static inline uint32_t load_flag(const uint32_t *flag)
{
	uint32_t number = __atomic_load_n(flag, __ATOMIC_ACQUIRE);

	rd_tsan_acquire(flag);
	return number;
}

static inline void set_flag(uint32_t *flag, uint32_t number)
{
	rd_tsan_release(flag);
	__atomic_store_n(flag, number, __ATOMIC_RELEASE);
}

/* Each half has a flag of its own, and need not come with the other. In places another rank's
   thread runs in between, so that a reader which checks one flag alone reads half of the data. */
static inline void store_words(uint32_t *at, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	rd_tsan_release(at);
	__atomic_store_n((uint64_t *)at + 1, (uint64_t)d << 32 | c, __ATOMIC_RELEASE);
	if ((uintptr_t)at % 1024 == 16)
		sched_yield();
	__atomic_store_n((uint64_t *)at, (uint64_t)b << 32 | a, __ATOMIC_RELEASE);
}

static inline uint4 load_words(const uint32_t *at)
{
	uint64_t low = __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
	uint64_t high = __atomic_load_n((const uint64_t *)at + 1, __ATOMIC_ACQUIRE);

	rd_tsan_acquire(at);
	return { (uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32) };
}

/* Kernels read it between polls. */
static inline uint64_t clock_ns()
{
	struct timespec now;

	grid_yield();
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline float least_of(float a, float b)
{
	if (a != a || b != b)
		return a != a ? a : b;
	return b < a || (a == b && std::signbit(b)) ? b : a;
}

static inline float greatest_of(float a, float b)
{
	if (a != a || b != b)
		return a != a ? a : b;
	return a < b || (a == b && std::signbit(a)) ? b : a;
}

#endif
