/* Max-pooling and its gradient, in every variant of the CPU's kernels, against plain loops. */
#include "train/device/images.h"

static const struct planes shapes[] = {
	{ 2, 3, 28, 28 },
	{ 3, 5, 14, 14 },
	{ 2, 2, 10, 10 },
	{ 1, 1, 2, 2 },
	{ 2, 3, 5, 7 },
	{ 1, 17, 33, 33 },
	{ 1, 2, 4, 65 },
	{ 0, 3, 4, 4 },
};

#define SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

/* The number of the largest of four, the first of equals; NaN counts as the largest. */
static int largest(const float four[4])
{
	int best = 0;
	for (int i = 1; i < 4; i++)
		if (four[i] > four[best] || isnan(four[i]))
			best = i;
	return best;
}

static void check_shape(struct device *cpu, const char *variant, const struct planes *shape)
{
	int out_rows = shape->rows / 2, out_columns = shape->columns / 2;
	size_t planes = (size_t)shape->batch * shape->channels;
	size_t in_plane = (size_t)shape->rows * shape->columns;
	size_t out_plane = (size_t)out_rows * out_columns;
	float *in = drawn(planes * in_plane, 1), *out = drawn(planes * out_plane, 2);
	float *out_grad = drawn(planes * out_plane, 3), *in_grad = drawn(planes * in_plane, 4);
	float *expected = drawn(planes * in_plane, 5);
	uint8_t *index = malloc(planes * out_plane + !planes);
	for (size_t i = 0; i < planes * in_plane; i++) {
		in[i] = roundf(in[i] * 4); /* with many equal ones */
		expected[i] = 0;
	}
	if (planes * in_plane > 9)
		in[9] = NAN;
	cpu->ops->max_pool(cpu, shape, in, out, index);
	cpu->ops->max_pool_grad(cpu, shape, index, out_grad, in_grad);
	for (size_t i = 0; i < planes * out_plane; i++) {
		size_t x = i % out_columns, y = i / out_columns % out_rows;
		size_t corner = i / out_plane * in_plane + 2 * y * shape->columns + 2 * x;
		size_t places[4] = { corner, corner + 1, corner + shape->columns,
			corner + shape->columns + 1 };
		float four[4] = { in[places[0]], in[places[1]], in[places[2]], in[places[3]] };
		int best = largest(four);
		cr_assert_eq(index[i], best, "%s: %zu", variant, i);
		cr_assert(out[i] == four[best] || (isnan(out[i]) && isnan(four[best])),
			"%s: %zu: %g instead of %g", variant, i, out[i], four[best]);
		expected[places[best]] = out_grad[i];
	}
	for (size_t i = 0; i < planes * in_plane; i++)
		cr_assert_eq(in_grad[i], expected[i], "%s: %zu: %g instead of %g", variant, i,
			in_grad[i], expected[i]);
	free(in), free(out), free(out_grad), free(in_grad), free(expected), free(index);
}

static void check_all(struct device *cpu, const char *variant)
{
	for (int s = 0; s < SHAPES; s++)
		check_shape(cpu, variant, &shapes[s]);
}

Test(pool, equals_plain_loops_for_every_shape)
{
	with_each_variant(check_all);
}
