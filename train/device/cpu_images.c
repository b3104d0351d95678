/* Chooses the kernels for images by the processor's vectors. */
#include "train/device/cpu_images.h"

#include <stddef.h>

#include "train/device/cpu_variants.h"

/* The best first. */
static const struct cpu_variant variants[] = {
#if defined(__x86_64__)
	{ "avx512", &cpu_images_avx512, RD_AVX512 },
	{ "avx2", &cpu_images_avx2, RD_AVX2 },
#endif
	{ "plain", &cpu_images_plain, RD_PLAIN },
	{ 0 },
};

static const void *chosen = &cpu_images_plain;

__attribute__((constructor)) static void choose_best(void)
{
	cpu_images_choose(NULL);
}

const struct image_kernels *cpu_images(void)
{
	return chosen;
}

bool cpu_images_choose(const char *name)
{
	return cpu_variant_choose(variants, name, &chosen);
}
