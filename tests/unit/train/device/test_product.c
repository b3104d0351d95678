/* ctest label: instructions */
/*
 * Products on the CPU, by OpenBLAS and by the kernels for small batches, against sums in double
 * precision.
 */
#include <cblas.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/base/rng.h"
#include "train/device/cpu_product.h"
#include "train/device/device.h"
#include "train/rounding.h"

/* In no product: shows writes beside it. */
#define BESIDE 12345.0f

/* rows, columns, inner; a and b transposed; beta */
struct shape {
	int rows, columns, inner;
	enum layout a, b;
	float beta;
};

/* A product and its memory, each block as long as it needs, so that sanitizers see reads behind. */
struct sample {
	struct product product;
	float *a, *b, *c, *before;
	size_t c_count;
};

static float *drawn(struct rng *rng, size_t count)
{
	float *values = malloc(count * sizeof(float) + !count);
	cr_assert_not_null(values);
	for (size_t i = 0; i < count; i++)
		values[i] = rng_between(rng, -1, 1);
	return values;
}

/* A factor with `gap` floats between its stored rows. Sets *values, one float after a boundary. */
static struct matrix factor(
	struct rng *rng, int rows, int columns, enum layout layout, int gap, float **values)
{
	int stored = layout == AS_IS ? rows : columns, width = layout == AS_IS ? columns : rows;
	size_t count = stored ? (size_t)(stored - 1) * (width + gap) + width : 0;
	*values = drawn(rng, 1 + count);
	return (struct matrix){ .data = *values + 1, .pitch = width + gap, .layout = layout };
}

static struct sample sample_of(const struct shape *shape, uint64_t seed)
{
	struct rng rng = rng_make(seed, 0);
	int gap = (int)(seed % 3);
	struct sample s = { .product = { .batch = 1,
				    .rows = shape->rows,
				    .columns = shape->columns,
				    .inner = shape->inner,
				    .alpha = 1,
				    .beta = shape->beta } };
	s.product.a = factor(&rng, shape->rows, shape->inner, shape->a, gap, &s.a);
	s.product.b = factor(&rng, shape->inner, shape->columns, shape->b, gap, &s.b);
	s.c_count = (size_t)shape->rows * (shape->columns + gap);
	s.before = drawn(&rng, s.c_count);
	for (size_t i = 0; i < s.c_count; i++) {
		if ((int)(i % (shape->columns + gap)) >= shape->columns)
			s.before[i] = BESIDE;
		else if (shape->beta == 0)
			s.before[i] = NAN; /* is not read */
	}
	s.c = malloc(s.c_count * sizeof(float) + !s.c_count);
	cr_assert_not_null(s.c);
	memcpy(s.c, s.before, s.c_count * sizeof(float));
	s.product.c = (struct matrix){ .data = s.c, .pitch = shape->columns + gap };
	return s;
}

static void discard(struct sample *s)
{
	free(s->a), free(s->b), free(s->c), free(s->before);
}

static double element(const struct matrix *m, int row, int column)
{
	return m->layout == AS_IS ? m->data[(size_t)row * m->pitch + column]
				  : m->data[(size_t)column * m->pitch + row];
}

static void expect_right(const struct sample *s, const char *by)
{
	const struct product *p = &s->product;
	for (int r = 0; r < p->rows; r++)
		for (int j = 0; j < p->c.pitch; j++) {
			size_t at = (size_t)r * p->c.pitch + j;
			double sum = 0, sizes = 0;
			if (j >= p->columns) {
				cr_assert_eq(s->c[at], BESIDE, "%s writes beside c", by);
				continue;
			}
			if (p->beta != 0)
				sum = (double)p->beta * s->before[at];
			sizes = fabs(sum);
			for (int k = 0; k < p->inner; k++) {
				double term =
					p->alpha * element(&p->a, r, k) * element(&p->b, k, j);
				sum += term;
				sizes += fabs(term);
			}
			cr_assert(fabs(s->c[at] - sum) <= ROUNDING(p->inner + 2, sizes),
				"%s: %d x %d x %d, layouts %d %d, beta %g: (%d, %d) is %.9g, not "
				"%.9g",
				by, p->rows, p->columns, p->inner, p->a.layout, p->b.layout,
				p->beta, r, j, s->c[at], sum);
		}
}

static struct device *open_cpu(void)
{
	struct device *cpu;
	openblas_set_num_threads(1); /* kernels have one */
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0, "%s", failure());
	return cpu;
}

static bool has_kernels(void)
{
	return cpu_product_choose("avx512");
}

/* The kernels themselves, whatever the size. */
static void multiply(const struct product *product)
{
	const struct product_kernels *kernels = cpu_product_kernels();
	size_t count = kernels->scratch(product);
	float *scratch = aligned_alloc(64, count * sizeof(float));
	cr_assert_not_null(scratch);
	for (size_t i = 0; i < count; i++)
		scratch[i] = NAN; /* holds nothing that counts */
	kernels->multiply(product, scratch);
	free(scratch);
}

static void check_kernels(int rows, int columns, int inner)
{
	for (int way = 0; way < 8; way++) {
		struct shape shape = { rows, columns, inner, way & 1, way >> 1 & 1, way >> 2 };
		struct sample s = sample_of(&shape, rows + columns + inner + way);
		if (shape.beta != 0 && inner % 2)
			s.product.alpha = -0.3f;
		multiply(&s.product);
		expect_right(&s, "kernels");
		discard(&s);
	}
}

Test(product, kernels_are_right_at_all_edges_of_tiles)
{
	static const int columns[] = { 1, 2, 15, 16, 17, 31, 33, 47, 48, 49, 65 };
	if (!has_kernels())
		cr_skip_test("the processor has no AVX-512");
	for (int rows = 1; rows <= 18; rows++)
		for (int j = 0; j < (int)(sizeof(columns) / sizeof(columns[0])); j++)
			check_kernels(rows, columns[j], 1 + (rows * 7 + j * 5) % 40);
	for (int inner = 1; inner <= 34; inner++)
		check_kernels(9, 35, inner);
}

Test(product, kernels_are_right_over_several_depths_and_blocks)
{
	if (!has_kernels())
		cr_skip_test("the processor has no AVX-512");
	check_kernels(3, 5, 512);
	check_kernels(3, 5, 513);
	check_kernels(5, 17, 1201);
	check_kernels(7, 513, 20); /* c^T in two blocks */
	check_kernels(20, 1100, 33);
	check_kernels(513, 9, 20);
}

/* All shapes of the table, by what cpu_product() chooses; the first are mlp's. */
static const struct shape shapes[] = {
	{ 64, 512, 784, AS_IS, TRANSPOSED, 1 },
	{ 64, 512, 512, AS_IS, TRANSPOSED, 1 },
	{ 512, 784, 64, TRANSPOSED, AS_IS, 0 },
	{ 512, 512, 64, TRANSPOSED, AS_IS, 0 },
	{ 64, 512, 512, AS_IS, AS_IS, 0 },
	{ 37, 300, 85, AS_IS, TRANSPOSED, 1 },
	{ 64, 10, 512, AS_IS, TRANSPOSED, 1 },
	{ 5, 3, 7, TRANSPOSED, TRANSPOSED, 0 },
	{ 1, 600, 900, AS_IS, TRANSPOSED, 0 },
	{ 4, 6, 0, AS_IS, AS_IS, 1 },
	{ 4, 6, 0, AS_IS, AS_IS, 0 },
	{ 0, 6, 5, AS_IS, AS_IS, 0 },
	{ 4, 0, 5, AS_IS, TRANSPOSED, 0 },
};

#define OURS 6 /* of them */
#define SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

static void check_device(const char *variant)
{
	struct device *cpu;
	if (!cpu_product_choose(variant))
		return;
	cpu = open_cpu();
	for (int i = 0; i < SHAPES; i++) {
		struct sample s = sample_of(&shapes[i], i);
		cpu->ops->product(cpu, &s.product);
		cr_assert_eq(cpu->ops->wait(cpu), 0, "%s", failure());
		expect_right(&s, variant);
		discard(&s);
	}
	device_destroy(cpu);
}

Test(product, the_device_is_right_by_kernels_and_by_openblas)
{
	check_device("avx512");
	check_device("plain");
}

Test(product, kernels_take_the_sizes_of_small_batches)
{
	for (int i = 0; i < SHAPES; i++) {
		struct sample s = sample_of(&shapes[i], i);
		cr_assert_eq(cpu_product_is_ours(&s.product), i < OURS, "shape %d", i);
		s.product.alpha = 0.5f;
		cr_assert_eq(cpu_product_is_ours(&s.product), i < OURS && shapes[i].beta == 1);
		discard(&s);
	}
}

/* A factor of one half, half of c, and several matrices, as no kernel has them. */
Test(product, the_device_scales_and_repeats)
{
	const struct shape shape = { 32, 64, 300, AS_IS, TRANSPOSED, 0.5f };
	struct sample s = sample_of(&shape, 3);
	struct device *cpu = open_cpu();
	s.product.alpha = 0.5f;
	cpu->ops->product(cpu, &s.product);
	expect_right(&s, "scaled");
	discard(&s);
	device_destroy(cpu);
}

static void check_step(const char *variant, int inner)
{
	const struct shape shape = { 37, 303, inner, TRANSPOSED, AS_IS, 1 };
	const struct sgd sgd = { .rate = 0.013f };
	if (!cpu_product_choose(variant))
		return;
	struct sample s = sample_of(&shape, 1);
	struct device *cpu = open_cpu();
	float *gradient = calloc(s.c_count, sizeof(float));
	struct product product = s.product;
	product.c.data = gradient;
	product.beta = 0;
	cpu->ops->product(cpu, &product);
	cpu->ops->sgd(cpu, &sgd, s.c_count, gradient, NULL, s.before, NULL);
	s.product.alpha = -sgd.rate;
	cpu->ops->product(cpu, &s.product);
	cr_assert_arr_eq(s.c, s.before, s.c_count * sizeof(float), "%s, %d", variant, inner);
	free(gradient);
	discard(&s);
	device_destroy(cpu);
}

/* A gradient that is added to the weights as it is computed, instead of by the optimizer. */
Test(product, a_step_of_sgd_has_the_bits_of_the_optimizer)
{
	check_step("avx512", 64);
	check_step("avx512", 700); /* several depths */
	check_step("avx512", 20); /* too small for the kernels */
	check_step("plain", 64);
}

/* A batch computes each matrix as alone, to the bit, wherever it lies. */
Test(product, a_batch_has_the_bits_of_its_matrices)
{
	enum { COUNT = 3, ROWS = 33, COLUMNS = 130, INNER = 131 };
	struct rng rng = rng_make(7, 0);
	float *a = drawn(&rng, COUNT * ROWS * INNER), *b = drawn(&rng, COUNT * COLUMNS * INNER);
	float *c = drawn(&rng, COUNT * ROWS * COLUMNS), *alone = drawn(&rng, ROWS * COLUMNS);
	struct device *cpu = open_cpu();
	struct product p = { COUNT, ROWS, COLUMNS, INNER, { a, INNER, AS_IS, ROWS * INNER },
		{ b, INNER, TRANSPOSED, COLUMNS * INNER }, { c, COLUMNS, AS_IS, ROWS * COLUMNS }, 1,
		0 };
	cr_assert(cpu_product_is_ours(&p));
	cpu->ops->product(cpu, &p);
	for (int n = 0; n < COUNT; n++) {
		device_multiply(cpu, ROWS, COLUMNS, INNER, a + n * ROWS * INNER, AS_IS,
			b + n * COLUMNS * INNER, TRANSPOSED, 0, alone);
		cr_assert_arr_eq(alone, c + n * ROWS * COLUMNS, sizeof(float) * ROWS * COLUMNS);
	}
	device_destroy(cpu);
	free(a), free(b), free(c), free(alone);
}
