#include "base/instructions.h"

#ifndef RD_INSTRUCTIONS_MOST
#define RD_INSTRUCTIONS_MOST RD_VPCLMUL
#endif

#if defined(__x86_64__)
#include <cpuid.h>

/* Before version 11, gcc's __builtin_cpu_supports() does not accept F16C. */
static bool has_f16c(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* Returns whether the processor has what this level adds to the one before it. */
static bool adds(enum rd_instructions level)
{
	switch (level) {
	case RD_SSE42:
		return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
	case RD_AVX2:
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
		       has_f16c();
	case RD_AVX512:
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	case RD_VPCLMUL:
		return __builtin_cpu_supports("vpclmulqdq");
	default:
		return true;
	}
}

bool rd_has_instructions(enum rd_instructions needed)
{
	__builtin_cpu_init();
	for (int level = RD_PLAIN; level <= (int)needed; level++)
		if (level > RD_INSTRUCTIONS_MOST || !adds((enum rd_instructions)level))
			return false;
	return true;
}
#else
bool rd_has_instructions(enum rd_instructions needed)
{
#if defined(__aarch64__)
	if (needed == RD_NEON)
		return RD_INSTRUCTIONS_MOST > RD_PLAIN;
#endif
	return needed == RD_PLAIN;
}
#endif
