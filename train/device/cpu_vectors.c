#include "train/device/cpu_vectors.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "train/device/cpu_variants.h"

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

/* The best first. */
static const struct cpu_variant variants[] = {
#if defined(__x86_64__)
	{ "avx512", &loops_avx512, RD_AVX512 },
	{ "avx2", &loops_avx2, RD_AVX2 },
#endif
	{ "plain", &loops_plain, RD_PLAIN },
	{ 0 },
};

static const void *chosen = &loops_plain;

__attribute__((constructor)) static void choose_best(void)
{
	cpu_vectors_choose(NULL);
}

const struct vector_loops *cpu_vectors(void)
{
	return chosen;
}

bool cpu_vectors_choose(const char *name)
{
	return cpu_variant_choose(variants, name, &chosen);
}
