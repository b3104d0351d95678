/* The CPU's operations on rows, its loss and its clipping against PyTorch's numbers. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "train/base/fail.h"
#include "train/device/device.h"
#include "train/reference.h"
#include "train/rounding.h"

/* The exponentials of 257 columns, 8 roundings each, of which 16 parts are added up. The absolute
   terms of a sum are at most twice the greatest result. */
#define TOLERANCE ROUNDING(8 + 257 / 16 + 4, 2)

static struct reference *reference;
static struct device *cpu;

static void open_cpu(void)
{
	reference = reference_read("layers");
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0, "%s", failure());
}

static void close_cpu(void)
{
	device_destroy(cpu);
	reference_destroy(reference);
}

TestSuite(rows, .init = open_cpu, .fini = close_cpu);

Test(rows, a_linear_layer_is_pytorchs)
{
	float in[5 * 7], weight[3 * 7], bias[3], out_grad[5 * 3];
	float out[5 * 3], in_grad[5 * 7], weight_grad[3 * 7], bias_grad[3];
	reference_fill(reference, "linear.input", in, 5 * 7);
	reference_fill(reference, "linear.weight", weight, 3 * 7);
	reference_fill(reference, "linear.bias", bias, 3);
	reference_fill(reference, "linear.output_grad", out_grad, 5 * 3);
	cpu->ops->spread(cpu, 5, 3, bias, out);
	device_multiply(cpu, 5, 3, 7, in, AS_IS, weight, TRANSPOSED, 1, out);
	device_multiply(cpu, 5, 7, 3, out_grad, AS_IS, weight, AS_IS, 0, in_grad);
	device_multiply(cpu, 3, 7, 5, out_grad, TRANSPOSED, in, AS_IS, 0, weight_grad);
	cpu->ops->column_sums(cpu, 5, 3, out_grad, bias_grad);
	reference_expect(reference, "linear.output", out, 5 * 3, TOLERANCE);
	reference_expect(reference, "linear.input_grad", in_grad, 5 * 7, TOLERANCE);
	reference_expect(reference, "linear.weight_grad", weight_grad, 3 * 7, TOLERANCE);
	reference_expect(reference, "linear.bias_grad", bias_grad, 3, TOLERANCE);
}

Test(rows, relu_is_pytorchs)
{
	float values[45], grad[45];
	reference_fill(reference, "relu.input", values, 45);
	reference_fill(reference, "relu.output_grad", grad, 45);
	cpu->ops->relu(cpu, 45, values, values);
	cpu->ops->relu_grad(cpu, 45, values, grad, grad);
	reference_expect(reference, "relu.output", values, 45, TOLERANCE);
	reference_expect(reference, "relu.input_grad", grad, 45, TOLERANCE);
}

static void expect_loss(const char *name, int rows, int columns)
{
	static float logits[3 * 257], grad[3 * 257];
	int32_t labels[7];
	char entry[64];
	double sums[2] = { 0 };
	size_t count = (size_t)rows * columns;
	snprintf(entry, sizeof(entry), "%s.labels", name);
	for (int row = 0; row < rows; row++)
		labels[row] = reference_integer(reference, entry, row);
	snprintf(entry, sizeof(entry), "%s.input", name);
	reference_fill(reference, entry, logits, count);
	cpu->ops->loss(cpu, rows, columns, logits, labels, sums);
	cpu->ops->loss_grad(cpu, rows, columns, logits, labels, 1.0f / rows, grad);
	float mean = sums[0] / rows;
	snprintf(entry, sizeof(entry), "%s.output", name);
	reference_expect(reference, entry, &mean, 1, TOLERANCE);
	snprintf(entry, sizeof(entry), "%s.input_grad", name);
	reference_expect(reference, entry, grad, count, TOLERANCE);
}

Test(rows, cross_entropy_is_pytorchs)
{
	expect_loss("cross_entropy", 7, 10);
	expect_loss("cross_entropy_wide", 3, 257);
}

/* Two tensors, 21 and 5 elements, by the factor of their common norm. */
static void expect_clipping(const char *name, float max_norm)
{
	static const size_t counts[] = { 21, 5 };
	float grads[2][21], factor;
	char entry[64];
	double sum = 0;
	for (int i = 0; i < 2; i++) {
		snprintf(entry, sizeof(entry), "%s.grad%d", name, i);
		reference_fill(reference, entry, grads[i], counts[i]);
		cpu->ops->square_sum(cpu, counts[i], grads[i], &sum);
	}
	snprintf(entry, sizeof(entry), "%s.norm", name);
	double norm = reference_value(reference, entry, 0);
	/* The sum is one of doubles, whose error is below that of a recorded digit. */
	cr_assert_float_eq(sqrt(sum), norm, RECORDED(norm) + ROUNDING_OF_DOUBLES(21 + 5, norm));
	cpu->ops->clip_factor(cpu, &sum, max_norm, 1, &factor);
	for (int i = 0; i < 2; i++) {
		cpu->ops->scale(cpu, counts[i], factor, grads[i]);
		snprintf(entry, sizeof(entry), "%s.clipped%d", name, i);
		reference_expect(reference, entry, grads[i], counts[i], TOLERANCE);
	}
}

Test(rows, gradients_are_clipped_as_pytorch_does)
{
	expect_clipping("clip_0.5", 0.5f);
	expect_clipping("clip_50", 50);
}
