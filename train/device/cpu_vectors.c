#include "train/device/cpu_vectors.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "train/device/cpu_level.h"

#define VARIANT(name) name##_plain
#include "train/device/cpu_vectors_loops.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define VARIANT(name) name##_avx2
#include "train/device/cpu_vectors_loops.h"
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push( \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif
#define VARIANT(name) name##_avx512
#include "train/device/cpu_vectors_loops.h"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif

const struct vector_loops *cpu_vectors(void)
{
	static const struct vector_loops *const loops[] = {
		[CPU_PLAIN] = &loops_plain,
#if defined(__x86_64__)
		[CPU_AVX2] = &loops_avx2,
		[CPU_AVX512] = &loops_avx512,
#endif
	};
	return loops[cpu_level()];
}
