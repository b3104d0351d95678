/* Chooses the kernels for images by the processor's vectors. */
#include "train/device/cpu_images.h"

#include <string.h>

#if defined(__x86_64__)
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
	const struct image_kernels *kernels;
	bool (*runs_here)(void);
} variants[] = {
#if defined(__x86_64__)
	{ &cpu_images_avx512, has_avx512 },
	{ &cpu_images_avx2, has_avx2 },
#endif
	{ &cpu_images_plain, has_plain },
};

#define VARIANT_COUNT (sizeof(variants) / sizeof(variants[0]))

static const struct image_kernels *chosen = &cpu_images_plain;

__attribute__((constructor)) static void choose_best(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
#endif
	for (size_t i = VARIANT_COUNT; i-- > 0;)
		if (variants[i].runs_here())
			chosen = variants[i].kernels;
}

const struct image_kernels *cpu_images(void)
{
	return chosen;
}

bool cpu_images_choose(const char *name)
{
	for (size_t i = 0; i < VARIANT_COUNT; i++)
		if (!strcmp(variants[i].kernels->name, name) && variants[i].runs_here()) {
			chosen = variants[i].kernels;
			return true;
		}
	return false;
}
