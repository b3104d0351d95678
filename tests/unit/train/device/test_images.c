/* ctest label: instructions */
/* The CPU's operations on images, in every variant of its kernels, against PyTorch's numbers. */
#include "train/device/images.h"

#include <stdio.h>

#include "train/reference.h"

/* Sums of a hundred products at most, whose absolute values add up to 4 times the greatest. */
#define TOLERANCE ROUNDING(100, 4)

static struct reference *reference;

/* The elements of a tensor by the formula. */
static float *given(const char *operation, const char *name)
{
	char entry[64];
	snprintf(entry, sizeof(entry), "%s.%s", operation, name);
	size_t count = reference_count(reference, entry);
	float *values = malloc(count * sizeof(float));
	cr_assert_not_null(values);
	reference_fill(reference, entry, values, count);
	return values;
}

/* Room for a result. */
static float *made(const char *operation, const char *name)
{
	char entry[64];
	snprintf(entry, sizeof(entry), "%s.%s", operation, name);
	float *values = calloc(reference_count(reference, entry), sizeof(float));
	cr_assert_not_null(values);
	return values;
}

static void expect(const char *operation, const char *name, float *values)
{
	char entry[64];
	snprintf(entry, sizeof(entry), "%s.%s", operation, name);
	reference_expect(reference, entry, values, reference_count(reference, entry), TOLERANCE);
	free(values);
}

static void check_conv(struct device *cpu, const char *name, const struct conv *conv)
{
	float *in = given(name, "input"), *weight = given(name, "weight");
	float *bias = given(name, "bias"), *out_grad = given(name, "output_grad");
	float *out = made(name, "output"), *in_grad = made(name, "input_grad");
	float *weight_grad = made(name, "weight_grad"), *bias_grad = made(name, "bias_grad");
	cpu->ops->conv(cpu, conv, in, weight, bias, out);
	cpu->ops->conv_weight_grad(cpu, conv, in, out_grad, weight_grad, bias_grad);
	cpu->ops->conv_in_grad(cpu, conv, weight, out_grad, in_grad);
	expect(name, "output", out);
	expect(name, "weight_grad", weight_grad);
	expect(name, "bias_grad", bias_grad);
	expect(name, "input_grad", in_grad);
	free(in);
	free(weight);
	free(bias);
	free(out_grad);
}

static void check_convs(struct device *cpu, const char *variant)
{
	(void)variant;
	/* batch, in and out channels, rows, columns, kernel, padding: as in make.py */
	check_conv(cpu, "conv2d_valid", &(struct conv){ 3, 2, 3, 9, 7, 5, 0 });
	check_conv(cpu, "conv2d_padded", &(struct conv){ 2, 3, 4, 5, 7, 5, 2 });
	check_conv(cpu, "conv2d_3x3", &(struct conv){ 1, 1, 5, 4, 3, 3, 1 });
	check_conv(cpu, "conv2d_1x1", &(struct conv){ 2, 3, 2, 3, 5, 1, 0 });
}

static void check_norm(struct device *cpu, const char *variant)
{
	const char *name = "batch_norm";
	const struct norm norm = { .shape = { 5, 3, 4, 3 }, .epsilon = 1e-5f };
	const double count = 5 * 4 * 3;
	float *in = given(name, "input"), *weight = given(name, "weight");
	float *bias = given(name, "bias"), *out_grad = given(name, "output_grad");
	float *out = made(name, "output"), *in_grad = made(name, "input_grad");
	float *weight_grad = made(name, "weight_grad"), *bias_grad = made(name, "bias_grad");
	float *mean = made(name, "running_mean"), *variance = made(name, "running_var");
	float *evaluated = made(name, "evaluated");
	float saved[6];
	double sums[6];
	(void)variant;
	for (int c = 0; c < 3; c++)
		variance[c] = 1;
	cpu->ops->norm_sums(cpu, &norm, in, sums);
	cpu->ops->norm_moments(cpu, &norm, sums, count, 0.1f, saved, mean, variance);
	cpu->ops->norm(cpu, &norm, in, saved, weight, bias, out);
	cpu->ops->norm_grad_sums(cpu, &norm, in, out, out_grad, saved, sums);
	cpu->ops->norm_weight_grad(cpu, &norm, sums, weight_grad, bias_grad);
	cpu->ops->norm_in_grad(cpu, &norm, in, out, out_grad, saved, weight, sums, count, in_grad);
	cpu->ops->norm_fixed(cpu, &norm, mean, variance, saved);
	cpu->ops->norm(cpu, &norm, in, saved, weight, bias, evaluated);
	expect(name, "output", out);
	expect(name, "input_grad", in_grad);
	expect(name, "weight_grad", weight_grad);
	expect(name, "bias_grad", bias_grad);
	expect(name, "running_mean", mean);
	expect(name, "running_var", variance);
	expect(name, "evaluated", evaluated);
	free(in);
	free(weight);
	free(bias);
	free(out_grad);
}

static void check_pool(struct device *cpu, const char *variant)
{
	const char *name = "max_pool2d";
	const struct planes shape = { 2, 3, 7, 5 };
	float *in = given(name, "input"), *out_grad = given(name, "output_grad");
	float *out = made(name, "output"), *in_grad = made(name, "input_grad");
	uint8_t index[2 * 3 * 3 * 2];
	(void)variant;
	cpu->ops->max_pool(cpu, &shape, in, out, index);
	cpu->ops->max_pool_grad(cpu, &shape, index, out_grad, in_grad);
	expect(name, "output", out);
	expect(name, "input_grad", in_grad);
	free(in);
	free(out_grad);
}

static void run(void (*check)(struct device *cpu, const char *variant))
{
	reference = reference_read("layers");
	with_each_variant(check);
	reference_destroy(reference);
}

Test(images, convolution_is_pytorchs)
{
	run(check_convs);
}

Test(images, batch_norm_is_pytorchs)
{
	run(check_norm);
}

Test(images, max_pooling_is_pytorchs)
{
	run(check_pool);
}
