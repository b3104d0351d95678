/* Convolution, batch norm and pooling on a GPU give the CPU's numbers. */
#include <criterion/criterion.h>

#include "train/base/fail.h"
#include "train/device/gpus.h"
#include "train/device/operations.h"

TestSuite(cuda_images, .timeout = 120);

#define RUN(name) static void name(struct device *device, struct operands *o)
#define OPS device->ops

/* ---- Convolution ---- */

static void convolve(struct device *device, struct operands *o, const struct conv *conv)
{
	OPS->conv(device, conv, o->values[0], o->values[1], o->values[2], o->values[3]);
	OPS->conv_weight_grad(device, conv, o->values[0], o->values[4], o->values[5], o->values[6]);
	OPS->conv_in_grad(device, conv, o->values[1], o->values[4], o->values[7]);
}

/* LeNet's first, of smaller images. */
RUN(conv)
{
	convolve(device, o,
		&(struct conv){ .batch = 3,
			.in_channels = 3,
			.out_channels = 6,
			.rows = 13,
			.columns = 11,
			.kernel = 5 });
}

RUN(conv_padded)
{
	convolve(device, o,
		&(struct conv){ .batch = 2,
			.in_channels = 2,
			.out_channels = 5,
			.rows = 7,
			.columns = 9,
			.kernel = 5,
			.padding = 2 });
}

/* The padding is wider than the kernel needs, and the image is smaller than the kernel. */
RUN(conv_of_a_small_image)
{
	convolve(device, o,
		&(struct conv){ .batch = 4,
			.in_channels = 1,
			.out_channels = 3,
			.rows = 2,
			.columns = 1,
			.kernel = 4,
			.padding = 3 });
}

RUN(conv_of_one_weight)
{
	convolve(device, o,
		&(struct conv){ .batch = 5,
			.in_channels = 1,
			.out_channels = 1,
			.rows = 3,
			.columns = 3,
			.kernel = 1 });
}

/* The gradients of the parameters are 0. */
RUN(conv_of_no_image)
{
	convolve(device, o,
		&(struct conv){ .in_channels = 3,
			.out_channels = 6,
			.rows = 8,
			.columns = 8,
			.kernel = 5 });
}

/* Columns of 3.9 MB an image: two chunks. */
RUN(conv_of_chunks)
{
	convolve(device, o,
		&(struct conv){ .batch = 5,
			.in_channels = 1,
			.out_channels = 1,
			.rows = 32,
			.columns = 32,
			.kernel = 31,
			.padding = 15 });
}

/* ---- Batch norm ---- */

static void normalise(struct device *device, struct operands *o, const struct norm *norm)
{
	int count = norm->shape.batch * norm->shape.rows * norm->shape.columns;
	int channels = norm->shape.channels;
	float *in = o->values[0], *out = o->values[1], *in_grad = o->values[2];
	float *saved = o->values[3], *running = o->values[4], *weight = o->values[5];
	float *bias = weight + channels, *gradients = o->values[6], *out_grad = o->values[7];
	OPS->norm_sums(device, norm, in, o->sums);
	OPS->norm_moments(device, norm, o->sums, count ? count : 1, 0.1f, saved,
		count > 1 ? running : NULL, running + channels);
	OPS->norm(device, norm, in, saved, weight, bias, out);
	OPS->norm_grad_sums(device, norm, in, out, out_grad, saved, &o->sums[100]);
	OPS->norm_weight_grad(device, norm, &o->sums[100], gradients, gradients + channels);
	OPS->norm_in_grad(device, norm, in, out, out_grad, saved, weight, &o->sums[100],
		count ? count : 1, in_grad);
}

RUN(norm)
{
	normalise(device, o, &(struct norm){ { 7, 5, 3, 11 }, .epsilon = 1e-5f });
}

RUN(norm_with_relu)
{
	normalise(device, o, &(struct norm){ { 2, 16, 9, 13 }, .epsilon = 1e-5f, .relu = true });
}

/* More images than blocks that share a channel. */
RUN(norm_of_many_images)
{
	normalise(device, o, &(struct norm){ { 131, 3, 2, 5 }, .epsilon = 1e-5f });
}

/* One element a channel: its variance is 0, and 1 / sqrt(epsilon) = 316 enlarges rounding. */
RUN(norm_of_one_element)
{
	normalise(device, o, &(struct norm){ { 1, 9, 1, 1 }, .epsilon = 1e-5f });
}

RUN(norm_of_no_image)
{
	normalise(device, o, &(struct norm){ { 0, 5, 3, 3 }, .epsilon = 1e-5f });
}

/* No running statistics move. */
RUN(norm_alone)
{
	const struct norm norm = { { 3, 4, 5, 6 }, .epsilon = 1e-3f };
	OPS->norm_sums(device, &norm, o->values[0], o->sums);
	OPS->norm_moments(device, &norm, o->sums, 90, 0.1f, o->values[3], NULL, NULL);
}

/* Variances are positive. */
RUN(norm_fixed)
{
	const struct norm norm = { { 3, 300, 5, 6 }, .epsilon = 1e-3f };
	OPS->relu(device, ROOM, o->values[0], o->values[0]);
	OPS->norm_fixed(device, &norm, o->values[0], o->values[0] + 300, o->values[1]);
}

/* ---- Max-pooling ---- */

static void pool(struct device *device, struct operands *o, const struct planes *shape)
{
	OPS->max_pool(device, shape, o->values[0], o->values[1], o->index);
	OPS->max_pool_grad(device, shape, o->index, o->values[2], o->values[3]);
}

RUN(max_pool)
{
	pool(device, o, &(struct planes){ 3, 5, 14, 14 });
	pool(device, o, &(struct planes){ 2, 3, 9, 7 });
}

/* The first of equals counts; a row alone gives nothing. */
RUN(max_pool_of_equals)
{
	OPS->relu(device, ROOM, o->values[0], o->values[0]);
	pool(device, o, &(struct planes){ 2, 7, 10, 12 });
	pool(device, o, &(struct planes){ 2, 3, 1, 8 });
	pool(device, o, &(struct planes){ 0, 3, 8, 8 });
}

/*
 * Products that an element of a convolution adds up: those of a filter and a bias, of a filter's
 * other side, or of all pixels of the output.
 *
 * Batch norm adds up doubles. The roundings of floats are those of mean, deviation, scale and
 * shift, of one more product and sum, and of what a gradient takes from them. With a deviation of
 * 1, a normalised input is up to 4. Then an output is the sum of numbers up to 10, and a gradient
 * of numbers up to 24.
 * Each of `n` elements of a channel adds up to 8 to a gradient of the parameters.
 */
#define NORM_SIZES(n) \
	.sizes = { [1] = 10, [2] = 24, [3] = 2, [4] = 8, [6] = 8 * (n) }, .sum_size = 8 * (n)
#define LARGEST_INVERSE 317 /* 1 / sqrt(1e-5): of no deviation */

static int compare_images(void)
{
	static const struct operation operations[] = {
		{ "conv", conv, .roundings = 3 * 9 * 7 },
		{ "conv, padded", conv_padded, .roundings = 2 * 7 * 9 },
		{ "conv of a small image", conv_of_a_small_image, .roundings = 4 * 5 * 4 },
		{ "conv of one weight", conv_of_one_weight, .roundings = 5 * 3 * 3 },
		{ "conv of no image", conv_of_no_image, .roundings = 0 },
		{ "conv of chunks", conv_of_chunks, .coarse = true },
		{ "norm", norm, .roundings = 8, NORM_SIZES(7 * 3 * 11) },
		{ "norm with relu", norm_with_relu, .roundings = 8, NORM_SIZES(2 * 9 * 13) },
		{ "norm of many images", norm_of_many_images, .roundings = 8,
			NORM_SIZES(131 * 2 * 5) },
		/* Two numbers of 4 times that, whose difference is the result. */
		{ "norm of one element", norm_of_one_element, .roundings = 8,
			.sizes = { [1] = 8 * LARGEST_INVERSE,
				[2] = 8 * LARGEST_INVERSE,
				[3] = LARGEST_INVERSE,
				[6] = 8 * LARGEST_INVERSE },
			.sum_size = 8 * LARGEST_INVERSE },
		{ "norm of no image", norm_of_no_image, .roundings = 1,
			.sizes = { [3] = LARGEST_INVERSE } },
		{ "norm alone", norm_alone, .roundings = 1, .sizes = { [3] = 2 },
			.sum_size = 4 * 90 },
		/* 1 / sqrt(1e-3) */
		{ "norm_fixed", norm_fixed, .roundings = 3, .sizes = { [1] = 32 } },
		{ "max_pool", max_pool, .roundings = 0 },
		{ "max_pool of equals", max_pool_of_equals, .roundings = 0 },
	};
	return compare_operations(operations, sizeof(operations) / sizeof(operations[0]));
}

Test(cuda_images, every_operation_gives_the_cpus_numbers)
{
	need_gpus(NULL);
	expect_success(compare_images);
}
