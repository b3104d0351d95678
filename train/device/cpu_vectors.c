#include "train/device/cpu_vectors.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define VARIANT(name) name##_plain
#define VARIANT_NAME "plain"
#include "train/device/cpu_vectors_loops.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define VARIANT(name) name##_avx2
#define VARIANT_NAME "avx2"
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
#define VARIANT_NAME "avx512"
#include "train/device/cpu_vectors_loops.h"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

static bool has_plain(void)
{
	return true;
}

/* The best first. */
static const struct {
	const struct vector_loops *loops;
	bool (*runs_here)(void);
} variants[] = {
#if defined(__x86_64__)
	{ &loops_avx512, has_avx512 },
	{ &loops_avx2, has_avx2 },
#endif
	{ &loops_plain, has_plain },
};

#define VARIANT_COUNT (sizeof(variants) / sizeof(variants[0]))

static const struct vector_loops *chosen = &loops_plain;

__attribute__((constructor)) static void choose_best(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
#endif
	for (size_t i = VARIANT_COUNT; i-- > 0;)
		if (variants[i].runs_here())
			chosen = variants[i].loops;
}

const struct vector_loops *cpu_vectors(void)
{
	return chosen;
}

bool cpu_vectors_choose(const char *name)
{
	for (size_t i = 0; i < VARIANT_COUNT; i++)
		if (!strcmp(variants[i].loops->name, name) && variants[i].runs_here()) {
			chosen = variants[i].loops;
			return true;
		}
	return false;
}
