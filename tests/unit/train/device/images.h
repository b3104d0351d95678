/* For the tests of images' operations: every variant of the CPU's kernels, and random floats. */
#ifndef TESTS_TRAIN_DEVICE_IMAGES_H
#define TESTS_TRAIN_DEVICE_IMAGES_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "train/base/fail.h"
#include "train/base/rng.h"
#include "train/device/cpu_images.h"
#include "train/device/device.h"
#include "train/rounding.h"

/* Runs `check` with the kernels of each variant that this processor has. */
static inline void with_each_variant(void (*check)(struct device *cpu, const char *variant))
{
	const char *const variants[] = { "avx512", "avx2", "plain" };
	for (int v = 0; v < 3; v++) {
		struct device *cpu;
		if (!cpu_images_choose(variants[v]))
			continue;
		cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0, "%s", failure());
		check(cpu, variants[v]);
		cr_assert_eq(cpu->ops->wait(cpu), 0, "%s", failure());
		device_destroy(cpu);
	}
}

/* count floats between -1 and 1, in a block that ends with them: sanitizers see reads behind it. */
static inline float *drawn(size_t count, uint64_t seed)
{
	struct rng rng = rng_make(seed, 0);
	float *values = malloc(count * sizeof(float) + !count);
	cr_assert_not_null(values);
	for (size_t i = 0; i < count; i++)
		values[i] = rng_between(&rng, -1, 1);
	return values;
}

/* The same, coarse (rounding.h). */
static inline float *drawn_coarse(size_t count, uint64_t seed)
{
	struct rng rng = rng_make(seed, 0);
	float *values = drawn(count, seed);
	for (size_t i = 0; i < count; i++)
		values[i] = draw_coarse(&rng, 1);
	return values;
}

static inline double *zeros(size_t count)
{
	double *values = calloc(count + 1, sizeof(*values));
	cr_assert_not_null(values);
	return values;
}

/* Each is the reference but for these roundings of numbers of its size. NULL: none. */
static inline void expect_near(const char *what, const char *variant, size_t count,
	const float *values, const double *reference, double roundings, const double *sizes)
{
	for (size_t i = 0; i < count; i++)
		cr_assert(
			fabs(values[i] - reference[i]) <= ROUNDING(roundings, sizes ? sizes[i] : 0),
			"%s, %s: element %zu of %zu is %.9g instead of %.9g", what, variant, i,
			count, values[i], reference[i]);
}

#endif
