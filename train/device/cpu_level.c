#include "train/device/cpu_level.h"

const char *const cpu_level_names[CPU_LEVELS] = { "plain", "avx2", "avx512" };

static enum cpu_level chosen = CPU_PLAIN;

static bool is_here(enum cpu_level level)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	switch (level) {
	case CPU_AVX512:
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
	case CPU_AVX2:
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	default:
		break;
	}
#endif
	return level == CPU_PLAIN;
}

__attribute__((constructor)) static void choose_widest(void)
{
	chosen = CPU_AVX512;
	while (!is_here(chosen))
		chosen--;
}

enum cpu_level cpu_level(void)
{
	return chosen;
}

bool cpu_level_choose(enum cpu_level level)
{
	if (!is_here(level))
		return false;
	chosen = level;
	return true;
}
