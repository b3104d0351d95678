/* ctest label: instructions */
/* The CPU's operations of text models: PyTorch's numbers, and errors over all of their range. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/device/cpu_vectors.h"
#include "train/device/device.h"
#include "train/reference.h"
#include "train/rounding.h"

/* Layer norm adds up 19 columns, then 6 rows of what it computes from that. The absolute terms of a
   sum are at most 4 times the greatest result. */
#define TOLERANCE ROUNDING(19 + 6 + 8, 4)

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

TestSuite(text, .init = open_cpu, .fini = close_cpu);

static const char *const variants[] = { "plain", "avx2", "avx512" };

/* Runs a check for each variant that this processor has. */
static void for_each_variant(void (*check)(void))
{
	for (size_t v = 0; v < sizeof(variants) / sizeof(*variants); v++)
		if (cpu_vectors_choose(variants[v]))
			check();
}

static void check_gelu(void)
{
	float in[99], grad[99], out[99], in_grad[99];
	reference_fill(reference, "gelu.input", in, 99);
	reference_fill(reference, "gelu.output_grad", grad, 99);
	cpu->ops->gelu(cpu, 99, in, out);
	cpu->ops->gelu_grad(cpu, 99, in, grad, in_grad);
	reference_expect(reference, "gelu.output", out, 99, TOLERANCE);
	reference_expect(reference, "gelu.input_grad", in_grad, 99, TOLERANCE);
}

Test(text, gelu_is_pytorchs)
{
	for_each_variant(check_gelu);
}

/* The tanh form, written out; its slope by x. */
static double plain_gelu(double x, double *slope)
{
	double root = sqrt(2 / acos(-1)), inner = tanh(root * (x + 0.044715 * x * x * x));
	*slope = 0.5 * (1 + inner) +
		 0.5 * x * (1 - inner * inner) * root * (1 + 3 * 0.044715 * x * x);
	return 0.5 * x * (1 + inner);
}

static void check_gelu_range(void)
{
	for (float x = -30; x < 30; x += 0.003f) {
		float one = 1, out, in_grad;
		double slope, expected = plain_gelu(x, &slope);
		cpu->ops->gelu(cpu, 1, &x, &out);
		cpu->ops->gelu_grad(cpu, 1, &x, &one, &in_grad);
		/* The exponent's six roundings change a share of x by 1.4 at most; then come a sum
		   and a quotient. */
		cr_assert_float_eq(
			out, expected, ROUNDING(4, fmax(1, fabs(x))), "gelu(%g) is %g", x, out);
		cr_assert_float_eq(in_grad, slope, ROUNDING(16, 1), "gelu'(%g) is %g", x, in_grad);
	}
	float far[] = { -1e30f, 1e30f, NAN }, out[3];
	cpu->ops->gelu(cpu, 3, far, out);
	cr_assert(isnan(out[2]));
	cr_assert_eq(out[1], 1e30f);
}

Test(text, gelu_is_exact_over_its_range)
{
	for_each_variant(check_gelu_range);
}

static void check_exp(void)
{
	float values[37], powers[37];
	for (float first = -86; first < 80; first += 37 * 0.01f) {
		double sum = 0;
		for (int i = 0; i < 37; i++) {
			values[i] = first + 0.01f * i;
			sum += exp(values[i]);
		}
		/* Each has 2; 3 of them are added up, and then 16 parts. */
		float total = cpu_vectors()->exp_sum(37, 1, values, 0, powers);
		cr_assert_float_eq(total, sum, ROUNDING(2 + 2 + 4, sum), "from %g: %g, not %g",
			first, total, sum);
		for (int i = 0; i < 37; i++)
			cr_assert_float_eq(powers[i], exp(values[i]), ROUNDING(2, exp(values[i])),
				"%g", values[i]);
		cr_assert_eq(cpu_vectors()->exp_sum(37, 1, values, 0, NULL), total);
	}
	values[20] = NAN;
	cr_assert(isnan(cpu_vectors()->exp_sum(37, 1, values, 0, powers)));
	cr_assert_eq(cpu_vectors()->exp_sum(0, 1, values, 0, powers), 0.0f);
}

Test(text, exponentials_are_exact_over_their_range)
{
	for_each_variant(check_exp);
}

static void check_layer_norm(void)
{
	const struct layer_norm norm = { .rows = 6, .columns = 19, .epsilon = 1e-5f };
	float in[114], weight[19], bias[19], grad[114];
	float out[114], saved[12], in_grad[114], weight_grad[19], bias_grad[19];
	reference_fill(reference, "layer_norm.input", in, 114);
	reference_fill(reference, "layer_norm.weight", weight, 19);
	reference_fill(reference, "layer_norm.bias", bias, 19);
	reference_fill(reference, "layer_norm.output_grad", grad, 114);
	cpu->ops->layer_norm(cpu, &norm, in, weight, bias, saved, out);
	cpu->ops->layer_norm_grad(
		cpu, &norm, in, saved, weight, grad, in_grad, weight_grad, bias_grad);
	reference_expect(reference, "layer_norm.output", out, 114, TOLERANCE);
	reference_expect(reference, "layer_norm.input_grad", in_grad, 114, TOLERANCE);
	reference_expect(reference, "layer_norm.weight_grad", weight_grad, 19, TOLERANCE);
	reference_expect(reference, "layer_norm.bias_grad", bias_grad, 19, TOLERANCE);
}

Test(text, layer_norm_is_pytorchs)
{
	for_each_variant(check_layer_norm);
}

Test(text, layer_norm_of_no_rows_has_gradients_of_zero)
{
	const struct layer_norm norm = { .rows = 0, .columns = 3, .epsilon = 1e-5f };
	float weight_grad[3] = { 1, 1, 1 }, bias_grad[3] = { 1, 1, 1 };
	cpu->ops->layer_norm_grad(cpu, &norm, NULL, NULL, NULL, NULL, NULL, weight_grad, bias_grad);
	for (int i = 0; i < 3; i++)
		cr_assert(weight_grad[i] == 0 && bias_grad[i] == 0);
}

static void check_softmax(void)
{
	float values[98], grad[98];
	reference_fill(reference, "causal_softmax.input", values, 98);
	reference_fill(reference, "causal_softmax.output_grad", grad, 98);
	cpu->ops->causal_softmax(cpu, 2, 7, 0.25f, values);
	cpu->ops->causal_softmax_grad(cpu, 2, 7, 0.25f, values, grad);
	reference_expect(reference, "causal_softmax.output", values, 98, TOLERANCE);
	reference_expect(reference, "causal_softmax.input_grad", grad, 98, TOLERANCE);
}

Test(text, causal_softmax_is_pytorchs)
{
	for_each_variant(check_softmax);
}

Test(text, the_softmax_of_large_scores_does_not_overflow)
{
	float scores[4] = { 5, 7, 3e38f, 3e38f };
	cpu->ops->causal_softmax(cpu, 1, 2, 1, scores);
	cr_assert_arr_eq(scores, ((float[]){ 1, 0, 0.5f, 0.5f }), sizeof(scores));
}

Test(text, embeddings_are_pytorchs)
{
	const struct embedding shape = { .rows = 15, .positions = 5, .width = 6, .vocabulary = 11 };
	float tokens_table[66], positions_table[30], grad[90], out[90];
	float token_grad[66], position_grad[30];
	int32_t tokens[15];
	for (int i = 0; i < 15; i++)
		tokens[i] = reference_integer(reference, "embedding.tokens", i);
	reference_fill(reference, "embedding.wte", tokens_table, 66);
	reference_fill(reference, "embedding.wpe", positions_table, 30);
	reference_fill(reference, "embedding.output_grad", grad, 90);
	/* It adds to the one gradient, and sets the other. */
	for (int i = 0; i < 66; i++)
		token_grad[i] = 2;
	memset(position_grad, 1, sizeof(position_grad));
	cpu->ops->embed(cpu, &shape, tokens, tokens_table, positions_table, out);
	cpu->ops->embed_grad(cpu, &shape, tokens, grad, token_grad, position_grad);
	for (int i = 0; i < 66; i++)
		token_grad[i] -= 2;
	reference_expect(reference, "embedding.output", out, 90, TOLERANCE);
	reference_expect(reference, "embedding.wte_grad", token_grad, 66, TOLERANCE);
	reference_expect(reference, "embedding.wpe_grad", position_grad, 30, TOLERANCE);
}
