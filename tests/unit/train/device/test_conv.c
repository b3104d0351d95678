/* ctest label: instructions */
/*
 * Convolution and its gradients, in every variant of the CPU's kernels, against the plainest loops
 * in double precision.
 */

#include "train/device/images.h"

static const struct conv shapes[] = {
	/* batch, in and out channels, rows, columns, kernel, padding */
	{ 5, 1, 16, 28, 28, 5, 2 }, /* convnet's */
	{ 5, 16, 32, 14, 14, 5, 2 },
	{ 5, 3, 6, 32, 32, 5, 0 }, /* lenet's */
	{ 5, 6, 16, 14, 14, 5, 0 },
	{ 1, 1, 1, 1, 1, 1, 0 },
	{ 1, 1, 1, 5, 5, 5, 0 },
	{ 1, 3, 17, 5, 7, 3, 1 },
	{ 5, 6, 3, 33, 17, 3, 2 },
	{ 5, 17, 5, 9, 33, 1, 0 },
	{ 1, 16, 7, 12, 5, 5, 1 },
	{ 5, 2, 9, 8, 11, 7, 3 },
	{ 40, 2, 3, 16, 16, 3, 1 }, /* several blocks of images */
	{ 0, 3, 6, 12, 12, 5, 2 },
};

#define SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

static int out_rows(const struct conv *c)
{
	return c->rows + 2 * c->padding - c->kernel + 1;
}

static int out_columns(const struct conv *c)
{
	return c->columns + 2 * c->padding - c->kernel + 1;
}

static size_t in_count(const struct conv *c)
{
	return (size_t)c->batch * c->in_channels * c->rows * c->columns;
}

static size_t weight_count(const struct conv *c)
{
	return (size_t)c->out_channels * c->in_channels * c->kernel * c->kernel;
}

static size_t out_count(const struct conv *c)
{
	return (size_t)c->batch * c->out_channels * out_rows(c) * out_columns(c);
}

/* Calls visit for each product of an input and a weight that an output is the sum of. */
static void each_product(const struct conv *c,
	void (*visit)(void *argument, size_t in, size_t weight, size_t out), void *argument)
{
	size_t out = 0;
	for (int n = 0; n < c->batch; n++)
		for (int o = 0; o < c->out_channels; o++)
			for (int y = 0; y < out_rows(c); y++)
				for (int x = 0; x < out_columns(c); x++, out++)
					for (int i = 0; i < c->in_channels; i++)
						for (int t = 0; t < c->kernel * c->kernel; t++) {
							int row = y + t / c->kernel - c->padding;
							int column = x + t % c->kernel - c->padding;
							if (row < 0 || row >= c->rows ||
								column < 0 || column >= c->columns)
								continue;
							visit(argument,
								((size_t)(n * c->in_channels + i) *
										c->rows +
									row) * c->columns +
									column,
								(size_t)(o * c->in_channels + i) *
										c->kernel *
										c->kernel +
									t,
								out);
						}
}

struct reference {
	const float *in, *weight, *out_grad;
	double *out, *in_grad, *weight_grad;
};

static void add_product(void *argument, size_t in, size_t weight, size_t out)
{
	struct reference *r = argument;
	r->out[out] += (double)r->in[in] * r->weight[weight];
	r->in_grad[in] += (double)r->weight[weight] * r->out_grad[out];
	r->weight_grad[weight] += (double)r->in[in] * r->out_grad[out];
}

/* The numbers are coarse: the sums are exact, and show a product that is missing or twice there. */
static void check_shape(struct device *cpu, const char *variant, const struct conv *c)
{
	float *in = drawn_coarse(in_count(c), 1), *weight = drawn_coarse(weight_count(c), 2);
	float *bias = drawn_coarse(c->out_channels, 3), *out_grad = drawn_coarse(out_count(c), 4);
	float *out = drawn_coarse(out_count(c), 5), *in_grad = drawn_coarse(in_count(c), 6);
	float *weight_grad = drawn_coarse(weight_count(c), 7),
	      *bias_grad = drawn_coarse(c->out_channels, 8);
	double *bias_sums = zeros(c->out_channels);
	struct reference r = { in, weight, out_grad, zeros(out_count(c)), zeros(in_count(c)),
		zeros(weight_count(c)) };
	int pixels = out_rows(c) * out_columns(c);
	for (size_t i = 0; i < out_count(c); i++) {
		r.out[i] = bias[i / pixels % c->out_channels];
		bias_sums[i / pixels % c->out_channels] += out_grad[i];
	}
	each_product(c, add_product, &r);
	cpu->ops->conv(cpu, c, in, weight, bias, out);
	cpu->ops->conv_weight_grad(cpu, c, in, out_grad, weight_grad, bias_grad);
	cpu->ops->conv_in_grad(cpu, c, weight, out_grad, in_grad);
	expect_near("conv", variant, out_count(c), out, r.out, 0, NULL);
	expect_near("conv_in_grad", variant, in_count(c), in_grad, r.in_grad, 0, NULL);
	expect_near(
		"conv_weight_grad", variant, weight_count(c), weight_grad, r.weight_grad, 0, NULL);
	expect_near("bias", variant, c->out_channels, bias_grad, bias_sums, 0, NULL);
	free(in), free(weight), free(bias), free(out_grad), free(out), free(in_grad);
	free(weight_grad), free(bias_grad), free(bias_sums);
	free(r.out), free(r.in_grad), free(r.weight_grad);
}

static void check_all(struct device *cpu, const char *variant)
{
	for (int s = 0; s < SHAPES; s++)
		check_shape(cpu, variant, &shapes[s]);
}

Test(conv, equals_plain_loops_for_every_shape)
{
	with_each_variant(check_all);
}

/* An image's output does not depend on the others of its batch, to the bit. */
static void check_batch(struct device *cpu, const char *variant)
{
	struct conv whole = { 5, 6, 7, 11, 13, 5, 2 }, one = whole;
	size_t in_image = in_count(&whole) / 5, out_image = out_count(&whole) / 5;
	float *in = drawn(in_count(&whole), 1), *weight = drawn(weight_count(&whole), 2);
	float *out = drawn(out_count(&whole), 3), *alone = drawn(out_image, 4);
	one.batch = 1;
	cpu->ops->conv(cpu, &whole, in, weight, weight, out);
	for (int n = 0; n < 5; n++) {
		cpu->ops->conv(cpu, &one, in + n * in_image, weight, weight, alone);
		cr_assert_arr_eq(out + n * out_image, alone, out_image * sizeof(float), "%s: %d",
			variant, n);
	}
	free(in), free(weight), free(out), free(alone);
}

Test(conv, an_image_does_not_depend_on_its_batch)
{
	with_each_variant(check_batch);
}

/* Neither larger shapes nor NaN before it change a result. */
static void check_repeats(struct device *cpu, const char *variant)
{
	const struct conv *c = &shapes[1];
	float *in = drawn(in_count(c), 1), *weight = drawn(weight_count(c), 2);
	float *out = drawn(out_count(c), 3), *bias = drawn(c->out_channels, 4);
	for (size_t i = 0; i < in_count(c); i++)
		in[i] = NAN;
	cpu->ops->conv(cpu, c, in, weight, bias, out);
	check_shape(cpu, variant, &shapes[6]);
	cpu->ops->conv_weight_grad(cpu, c, in, out, weight, bias);
	check_shape(cpu, variant, &shapes[6]);
	check_shape(cpu, variant, c);
	free(in), free(weight), free(out), free(bias);
}

Test(conv, scratch_holds_nothing_of_earlier_calls)
{
	with_each_variant(check_repeats);
}

/* Max-pooling and its gradient, in every variant of the CPU's kernels, against plain loops. */

static const struct planes plane_shapes[] = {
	{ 2, 3, 28, 28 },
	{ 3, 5, 14, 14 },
	{ 2, 2, 10, 10 },
	{ 1, 1, 2, 2 },
	{ 2, 3, 5, 7 },
	{ 1, 17, 33, 33 },
	{ 1, 2, 4, 65 },
	{ 0, 3, 4, 4 },
};

#define PLANE_SHAPES ((int)(sizeof(plane_shapes) / sizeof(plane_shapes[0])))

/* The number of the largest of four, the first of equals; NaN counts as the largest. */
static int largest(const float four[4])
{
	int best = 0;
	for (int i = 1; i < 4; i++)
		if (four[i] > four[best] || isnan(four[i]))
			best = i;
	return best;
}

static void check_planes(struct device *cpu, const char *variant, const struct planes *shape)
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

static void check_all_planes(struct device *cpu, const char *variant)
{
	for (int s = 0; s < PLANE_SHAPES; s++)
		check_planes(cpu, variant, &plane_shapes[s]);
}

Test(pool, equals_plain_loops_for_every_shape)
{
	with_each_variant(check_all_planes);
}
