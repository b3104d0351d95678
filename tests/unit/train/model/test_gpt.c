/* ctest label: instructions */
/* gpt against PyTorch's numbers, against finite differences, and its rules. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/base/rng.h"
#include "train/model/gpt.h"
#include "train/model/networks.h"
#include "train/optim/optimizer.h"
#include "train/reference.h"
#include "train/rounding.h"
#include "train/small.h"

#define BATCH 3
#define TOKENS 13
#define ROWS (BATCH * TOKENS)
#define STEPS 4
#define TENSORS 28

/* The error of PyTorch's own float32. */
/* Products that are added up one after the other. A block has those of two norms, of queries and
   scores, of values and their projection, and of two layers; a norm, the head and its softmax come
   then. */
#define TERMS (2 * (2 * 16 + 16 + 8 + 13 + 16 + 16 + 64) + 16 + 16 + 256)
/* Forward and backward in each step. */
#define TOLERANCE LIKELY_ROUNDING(2 * STEPS * TERMS, 1)

static const struct gpt shape = {
	.layers = 2, .heads = 2, .width = 16, .tokens = TOKENS, .vocabulary = 256
};

static struct reference *reference;
static struct device *cpu;
static struct model *model;
static float *gradients;
static int32_t tokens[ROWS], labels[ROWS];

static void open_model(void)
{
	const struct model_config config = {
		.rows = TOKENS, .classes = shape.vocabulary, .batch_max = BATCH
	};
	reference = reference_read("gpt");
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0, "%s", failure());
	cr_assert_eq(model_open(&model, cpu, &config, "GPT"), 0, "%s", failure());
	cr_assert_eq(gpt_layers(model, &shape), 0, "%s", failure());
	cr_assert_eq(model_finish(model, 1), 0, "%s", failure());
	cr_assert_eq(model->parameters.count, TENSORS);
	gradients = calloc(model->parameters.elements, sizeof(*gradients));
	cr_assert(gradients);
	small_place(model, gradients);
	for (int t = 0; t < TENSORS; t++) {
		struct tensor *tensor = &model->parameters.list[t];
		reference_fill(reference, tensor->name, tensor->value, tensor->count);
	}
}

static void close_model(void)
{
	free(gradients);
	model_destroy(model);
	device_destroy(cpu);
	reference_destroy(reference);
}

TestSuite(gpt, .init = open_model, .fini = close_model);

/* A row of the fixture has one token more: the last label. */
static void take_batch(int step)
{
	char name[32];
	snprintf(name, sizeof(name), "tokens.%d", step);
	for (int n = 0; n < BATCH; n++) {
		for (int i = 0; i < TOKENS; i++) {
			int at = n * (TOKENS + 1) + i;
			tokens[n * TOKENS + i] = reference_integer(reference, name, at);
			labels[n * TOKENS + i] = reference_integer(reference, name, at + 1);
		}
	}
}

/* Forward and backward; the mean loss. */
static float run_batch(void)
{
	small_forward(model, tokens, BATCH);
	double loss = small_loss(model, labels, NULL);
	cr_assert_eq(small_backward(model, tokens, labels, 1.0f / ROWS, small_ready, NULL), 0);
	return loss / ROWS;
}

Test(gpt, one_batch_has_pytorchs_logits_loss_and_gradients)
{
	char name[128];
	take_batch(0);
	small_forward(model, tokens, BATCH);
	reference_expect(reference, "logits", model_output(model, model->passes),
		ROWS * shape.vocabulary, TOLERANCE);
	float loss = run_batch();
	reference_expect(reference, "loss", &loss, 1, TOLERANCE);
	for (int t = 0; t < TENSORS; t++) {
		const struct tensor *tensor = &model->parameters.list[t];
		snprintf(name, sizeof(name), "grad/%s", tensor->name);
		reference_expect(reference, name, tensor->grad, tensor->count, TOLERANCE);
	}
}

static void expect_training(
	const char *name, struct optimizer_config config, float rate, double tolerance)
{
	struct optimizer *optimizer;
	char entry[128];
	cr_assert_eq(optimizer_create(&optimizer, cpu, &config, model->parameters.elements), 0);
	for (int step = 0; step < STEPS; step++) {
		take_batch(step);
		float loss = run_batch();
		snprintf(entry, sizeof(entry), "%s.%d/loss", name, step);
		reference_expect(reference, entry, &loss, 1, tolerance);
		optimizer_step(optimizer, &model->parameters, rate);
	}
	for (int t = 0; t < TENSORS; t++) {
		const struct tensor *tensor = &model->parameters.list[t];
		snprintf(entry, sizeof(entry), "%s.%d/%s", name, STEPS, tensor->name);
		/* Adam's steps of gradients that are zero but for rounding are not recorded. */
		if (reference_has(reference, entry))
			reference_expect(reference, entry, tensor->value, tensor->count, tolerance);
	}
	optimizer_destroy(optimizer);
}

Test(gpt, four_steps_of_sgd_end_at_pytorchs_parameters)
{
	struct optimizer_config config = optimizer_defaults(OPTIMIZER_SGD);
	config.momentum = config.weight_decay = 0;
	expect_training("sgd", config, 0.1f, TOLERANCE);
}

Test(gpt, four_steps_of_adamw_end_at_pytorchs_parameters)
{
	expect_training("adamw", optimizer_defaults(OPTIMIZER_ADAMW), 1e-3f, 2 * TOLERANCE);
}

/* The loss's slope by a step along this direction, by central differences. */
static double slope_by(
	struct tensor *tensor, const float *before, const float *direction, float step)
{
	double losses[2];
	for (int side = 0; side < 2; side++) {
		for (size_t i = 0; i < tensor->count; i++)
			tensor->value[i] = before[i] + (side ? step : -step) * direction[i];
		small_forward(model, tokens, BATCH);
		losses[side] = small_loss(model, labels, NULL) / ROWS;
	}
	memcpy(tensor->value, before, tensor->count * sizeof(float));
	return (losses[1] - losses[0]) / (2 * step);
}

/*
 * Central differences err by the square of the step: by a step half as long, by a quarter. So the
 * error of the shorter one is a third of their difference; twice that is allowed for what the
 * step's fourth power adds. A loss of 3 is rounded as well (ln(13), of 13 tokens, is 2.6).
 */
Test(gpt, gradients_are_those_of_finite_differences)
{
	const float step = 1 / 256.0f;
	float before[4096], direction[4096];
	take_batch(1);
	run_batch();
	for (int t = 0; t < TENSORS; t++) {
		struct tensor *tensor = &model->parameters.list[t];
		struct rng rng = rng_make(7, t);
		double expected = 0;
		memcpy(before, tensor->value, tensor->count * sizeof(float));
		for (size_t i = 0; i < tensor->count; i++) {
			direction[i] = rng_next(&rng) & 1 ? 1 : -1;
			expected += tensor->grad[i] * direction[i];
		}
		double far = slope_by(tensor, before, direction, step);
		double near = slope_by(tensor, before, direction, step / 2);
		cr_assert_float_eq(near, expected,
			2 * fabs(far - near) / 3 + LIKELY_ROUNDING(TERMS, 3) / step,
			"%s: %g, not %g", tensor->name, expected, near);
	}
}

Test(gpt, a_token_changes_no_logits_before_it)
{
	size_t row = shape.vocabulary * sizeof(float);
	float *before = malloc(TOKENS * row);
	cr_assert(before);
	take_batch(0);
	for (int changed = 0; changed < TOKENS; changed++) {
		const float *logits = model_output(model, model->passes);
		small_forward(model, tokens, 1);
		memcpy(before, logits, TOKENS * row);
		tokens[changed] ^= 1;
		small_forward(model, tokens, 1);
		for (int r = 0; r < TOKENS; r++) {
			bool same =
				!memcmp((char *)before + r * row, (char *)logits + r * row, row);
			cr_assert_eq(same, r < changed, "token %d, row %d", changed, r);
		}
	}
	free(before);
}

static int count_ready(void *argument, int tensor)
{
	((int *)argument)[tensor]++;
	return 0;
}

Test(gpt, every_gradient_is_announced_once_and_that_of_the_tied_table_last)
{
	int announced[TENSORS] = { 0 };
	take_batch(0);
	small_forward(model, tokens, BATCH);
	cr_assert_eq(small_backward(model, tokens, labels, 1, count_ready, announced), 0);
	for (int t = 0; t < TENSORS; t++)
		cr_assert_eq(announced[t], 1, "%s", model->parameters.list[t].name);
}

Test(gpt, no_samples_give_gradients_of_zero)
{
	memset(gradients, 1, model->parameters.elements * sizeof(*gradients));
	small_forward(model, tokens, 0);
	cr_assert_eq(small_backward(model, tokens, labels, 1, small_ready, NULL), 0);
	for (int t = 0; t < TENSORS; t++)
		for (size_t i = 0; i < model->parameters.list[t].count; i++)
			cr_assert_eq(model->parameters.list[t].grad[i], 0.0f);
}

/* Counts without memory for the parameters. */
static size_t count_parameters(const char *name)
{
	const struct network *network = network_named(name);
	const struct samples samples = { .classes = 256, .tokens = network->tokens };
	const struct model_config config = { .batch_max = 1 };
	struct model *built;
	cr_assert_eq(model_open(&built, cpu, &config, network->title), 0);
	cr_assert_eq(network->build(built, &samples), 0, "%s", failure());
	size_t count = model_parameter_count(built);
	model_destroy(built);
	return count;
}

Test(gpt, gpt2_has_its_124_million_parameters)
{
	cr_assert_eq(count_parameters("gpt2"), 124439808);
	cr_assert_eq(count_parameters("gpt"), 834304);
}

Test(gpt, first_values_are_nanogpts)
{
	struct model *drawn;
	const struct model_config config = { .rows = 32, .classes = 256, .batch_max = 1 };
	const struct gpt large = {
		.layers = 8, .heads = 4, .width = 64, .tokens = 32, .vocabulary = 256
	};
	cr_assert_eq(model_open(&drawn, cpu, &config, "GPT"), 0);
	cr_assert_eq(gpt_layers(drawn, &large), 0);
	cr_assert_eq(model_finish(drawn, 3), 0);
	for (int t = 0; t < drawn->parameters.count; t++) {
		const struct tensor *tensor = &drawn->parameters.list[t];
		bool norm = strstr(tensor->name, "ln_") != NULL;
		bool bias = strstr(tensor->name, "bias") != NULL;
		double sum = 0, expected = strstr(tensor->name, "c_proj") ? 0.005 : 0.02;
		for (size_t i = 0; i < tensor->count; i++) {
			if (norm || bias)
				cr_assert_eq(tensor->value[i], norm && !bias);
			sum += tensor->value[i] * tensor->value[i];
		}
		if (!norm && !bias)
			/* A deviation of n numbers has one itself, 1 / sqrt(2 n) of it. */
			cr_assert_float_eq(sqrt(sum / tensor->count), expected,
				6 * expected / sqrt(2.0 * tensor->count), "%s: %g", tensor->name,
				sqrt(sum / tensor->count));
	}
	model_destroy(drawn);
}

static void printed(const struct model *printed_model, char *text, size_t size)
{
	FILE *out = fmemopen(text, size, "w");
	cr_assert(out);
	model_print(printed_model, out);
	fclose(out);
}

Test(gpt, it_prints_as_pytorch_does)
{
	char text[4096];
	printed(model, text, sizeof(text));
	cr_assert(strstr(text, "    (wte): Embedding(256, 16), (wpe): Embedding(13, 16)\n"), "%s",
		text);
	cr_assert(strstr(text,
			  "        (attn): CausalSelfAttention(\n"
			  "          (c_attn): Linear(in_features=16, out_features=48, bias=True)\n"
			  "          scaled_dot_product_attention(heads=2, is_causal=True)\n"),
		"%s", text);
}

/* ---- A vocabulary of which the text uses a part ---- */

static struct model *make_used(int used, float **its)
{
	struct model *made;
	struct gpt part = shape;
	const struct model_config config = {
		.rows = TOKENS, .classes = shape.vocabulary, .batch_max = BATCH
	};
	part.used = used;
	cr_assert_eq(model_open(&made, cpu, &config, "GPT"), 0, "%s", failure());
	cr_assert_eq(gpt_layers(made, &part), 0, "%s", failure());
	cr_assert_eq(model_finish(made, 5), 0, "%s", failure());
	*its = calloc(made->parameters.elements, sizeof(**its));
	small_place(made, *its);
	return made;
}

static int first_ready;

static int note_first(void *argument, int tensor)
{
	(void)argument;
	if (first_ready < 0)
		first_ready = tensor;
	return 0;
}

/* The gradients of the rows that do not occur are those of the whole table, and come first. */
Test(gpt, rows_that_do_not_occur_are_a_tensor_of_their_own)
{
	enum { USED = 200 };
	float *whole_grad, *grad;
	struct model *whole = make_used(0, &whole_grad), *parts = make_used(USED, &grad);
	cr_assert_eq(parts->parameters.count, TENSORS + 1);
	cr_assert_eq(model_parameter_count(parts), model_parameter_count(whole));
	for (int i = 0; i < ROWS; i++) {
		tokens[i] = i * 7 % USED;
		labels[i] = i * 11 % shape.vocabulary;
	}
	small_forward(whole, tokens, BATCH);
	small_forward(parts, tokens, BATCH);
	cr_assert_float_eq(small_loss(whole, labels, NULL), small_loss(parts, labels, NULL),
		ROUNDING(8, ROWS * log(256)));
	cr_assert_eq(small_backward(whole, tokens, labels, 1, small_ready, NULL), 0);
	first_ready = -1;
	cr_assert_eq(small_backward(parts, tokens, labels, 1, note_first, NULL), 0);
	cr_assert_eq(first_ready, TENSORS);
	const struct tensor *table = &whole->parameters.list[0];
	const struct tensor *used = &parts->parameters.list[0];
	const struct tensor *rest = &parts->parameters.list[TENSORS];
	cr_assert_str_eq(rest->name, table->name);
	for (size_t i = 0; i < table->count; i++) {
		bool occurs = i < used->count;
		const struct tensor *part = occurs ? used : rest;
		size_t at = occurs ? i : i - used->count;
		cr_assert_eq(part->value[at], table->value[i]);
		cr_assert_float_eq(part->grad[at], table->grad[i], LIKELY_ROUNDING(2 * TERMS, 1),
			"element %zu", i);
	}
	for (int t = 1; t < TENSORS; t++)
		for (size_t i = 0; i < whole->parameters.list[t].count; i++)
			cr_assert_float_eq(parts->parameters.list[t].grad[i],
				whole->parameters.list[t].grad[i],
				LIKELY_ROUNDING(2 * TERMS, 10)); /* of up to 10 */
	model_destroy(whole);
	model_destroy(parts);
	free(whole_grad);
	free(grad);
}
