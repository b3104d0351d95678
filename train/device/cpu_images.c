#include "train/device/cpu_images.h"

#include "train/device/cpu_level.h"

const struct image_kernels *cpu_images(void)
{
	static const struct image_kernels *const kernels[] = {
		[CPU_PLAIN] = &cpu_images_plain,
#if defined(__x86_64__)
		[CPU_AVX2] = &cpu_images_avx2,
		[CPU_AVX512] = &cpu_images_avx512,
#endif
	};
	return kernels[cpu_level()];
}
