#include "train/device/cpu_variants.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static bool runs_here(enum cpu_width width)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (width == CPU_AVX512)
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	if (width == CPU_AVX2)
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
	return width == CPU_PLAIN;
}

const void *cpu_variant_find(const struct cpu_variant *variants, const char *name)
{
	for (; variants->name; variants++)
		if ((!name || !strcmp(variants->name, name)) && runs_here(variants->needs))
			return variants->table;
	return NULL;
}
