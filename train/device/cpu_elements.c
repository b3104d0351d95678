#include "train/device/cpu_elements.h"

#include <math.h>

#include "train/device/cpu_variants.h"

#define VARIANT(name) name##_plain
#include "train/device/cpu_elements_loops.h"

/* AVX2 without FMA. Wider vectors would wait for the caches. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
#define VARIANT(name) name##_avx2
#include "train/device/cpu_elements_loops.h"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

/* The best first. */
static const struct cpu_variant variants[] = {
#if defined(__x86_64__)
	{ "avx2", &loops_avx2, RD_AVX2 },
#endif
	{ "plain", &loops_plain, RD_PLAIN },
	{ 0 },
};

static const void *chosen = &loops_plain;

__attribute__((constructor)) static void choose_best(void)
{
	cpu_elements_choose(NULL);
}

const struct element_loops *cpu_elements(void)
{
	return chosen;
}

bool cpu_elements_choose(const char *name)
{
	return cpu_variant_choose(variants, name, &chosen);
}
