/* ctest label: instructions */
/* The CPU's operations on rows, its loss and its clipping against PyTorch's numbers. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/device/device.h"
#include "train/reference.h"
#include "train/rounding.h"
#include "base/instructions.h"
#include "train/base/rng.h"
#include "train/device/cpu_elements.h"

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

/* ---- Elements -------------------------------------------------------------------------------- */

/* Loops over elements: every variant gives the same bits, so that all ranks keep the same
   parameters, whatever their processors. */

#define COUNT 1003 /* no multiple of a vector */

/* The arrays of a step. */
struct state {
	float grad[COUNT], value[COUNT], first[COUNT], second[COUNT];
};

static struct state drawn(void)
{
	struct rng rng = rng_make(3, 0);
	struct state state;
	for (int i = 0; i < COUNT; i++) {
		state.grad[i] = rng_between(&rng, -1, 1);
		state.value[i] = rng_between(&rng, -1, 1);
		state.first[i] = rng_between(&rng, -1, 1);
		state.second[i] = rng_between(&rng, 0, 1);
	}
	return state;
}

/* Steps of all kinds, one after the other; each begins at another element. */
static struct state step_all(void)
{
	static const struct sgd sgds[] = {
		{ .rate = 0.1f },
		{ .rate = 0.1f, .weight_decay = 0.01f },
		{ .rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f, .first = true },
		{ .rate = 0.1f, .momentum = 0.9f, .nesterov = true },
	};
	static const struct adam adams[] = {
		{ .rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .step = 3 },
		{ .rate = 0.01f,
			.beta1 = 0.9f,
			.beta2 = 0.999f,
			.epsilon = 1e-8f,
			.weight_decay = 0.1f,
			.decoupled = true,
			.step = 4 },
	};
	static const float factor = 0.7f, none = NAN;
	struct state s = drawn();
	cpu->ops->add(cpu, COUNT - 1, s.grad + 1, s.value, s.value);
	cpu->ops->column_sums(cpu, 3, 301, s.value + 1, s.value + 5 * 31);
	cpu->ops->relu_grad(cpu, COUNT - 3, s.value + 3, s.grad, s.grad + 2);
	cpu->ops->relu(cpu, COUNT - 1, s.first + 1, s.first + 1);
	for (int i = 0; i < 4; i++)
		cpu->ops->sgd(cpu, &sgds[i], COUNT - i, s.grad + i, i % 2 ? &factor : NULL,
			s.value + i, i < 2 ? NULL : s.first + i);
	for (int i = 0; i < 2; i++)
		cpu->ops->adam(cpu, &adams[i], COUNT - i, s.grad + i, i ? &factor : NULL,
			s.value + i, s.first + i, s.second + i);
	struct state before = s;
	cpu->ops->sgd(cpu, &sgds[0], COUNT, s.grad, &none, s.value, NULL);
	cpu->ops->adam(cpu, &adams[0], COUNT, s.grad, &none, s.value, s.first, s.second);
	cr_assert_arr_eq(&s, &before, sizeof(s), "a step by NaN changes nothing");
	return s;
}

Test(rows, all_variants_of_elements_have_the_same_bits)
{
	cr_assert(cpu_elements_choose("plain"));
	struct state plain = step_all();
	bool has_avx2 = cpu_elements_choose("avx2");
	cr_assert_eq(has_avx2, rd_has_instructions(RD_AVX2));
	if (!has_avx2)
		cr_skip_test("the processor has no AVX2");
	struct state wide = step_all();
	cr_assert_arr_eq(&plain, &wide, sizeof(plain));
}
