/*
 * The model against a second one, written the plainest way in double: its loss, and its gradients
 * against finite differences of that loss.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/model/model.h"
#include "train/base/rng.h"

#define BATCH 5

static const int widths[] = { 7, 6, 5, 4 };
#define COUNT (7 * 6 + 6 + 6 * 5 + 5 + 5 * 4 + 4)

static struct device *cpu;
static float images[BATCH * 7];
static int32_t labels[BATCH];
static float gradients[COUNT];
static int ready_order[16], ready_count;

static int note_ready(void *argument, int tensor)
{
	(void)argument;
	ready_order[ready_count++] = tensor;
	return 0;
}

static int refuse(void *argument, int tensor)
{
	return tensor == *(int *)argument ? -77 : 0;
}

static void open_cpu(void)
{
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0, "%s", failure());
}

static void close_cpu(void)
{
	device_destroy(cpu);
}

TestSuite(model, .init = open_cpu, .fini = close_cpu);

static struct model *make_model(void)
{
	struct model *model;
	struct rng rng = rng_make(3, 0);
	cr_assert_eq(model_create(&model, cpu, widths, 4, BATCH, 11), 0);
	cr_assert_eq(model->parameter_count, COUNT);
	for (int i = 0; i < BATCH * 7; i++)
		images[i] = rng_between(&rng, -1, 1);
	for (int i = 0; i < BATCH; i++)
		labels[i] = rng_below(&rng, 4);
	float *next = gradients;
	for (int t = 0; t < model->tensor_count; t++) {
		model->tensors[t].grad = next;
		next += model->tensors[t].count;
	}
	return model;
}

/* One linear layer, then ReLU unless it is the last; returns its parameters' end. */
static const double *plain_layer(
	const double *parameters, int in, int out, const double *input, double *output, int last)
{
	const double *bias = parameters + in * out;
	for (int o = 0; o < out; o++) {
		output[o] = bias[o];
		for (int i = 0; i < in; i++)
			output[o] += parameters[o * in + i] * input[i];
		if (!last && output[o] < 0)
			output[o] = 0;
	}
	return bias + out;
}

static double plain_loss(const double *parameters /* [COUNT] */)
{
	double loss = 0;
	for (int row = 0; row < BATCH; row++) {
		double a[8], b[8], sum = 0;
		for (int i = 0; i < 7; i++)
			a[i] = images[row * 7 + i];
		const double *next = plain_layer(parameters, 7, 6, a, b, 0);
		next = plain_layer(next, 6, 5, b, a, 0);
		plain_layer(next, 5, 4, a, b, 1);
		for (int c = 0; c < 4; c++)
			sum += exp(b[c]);
		loss += log(sum) - b[labels[row]];
	}
	return loss;
}

Test(model, the_loss_is_the_cross_entropy)
{
	struct model *model = make_model();
	double parameters[COUNT], loss;
	int correct;
	for (int i = 0; i < COUNT; i++)
		parameters[i] = model->parameters[i];
	model_forward(model, images, BATCH);
	/* Sums of seven floats at most, three deep: a few units in the last place of 1. */
	cr_assert_eq(model_loss(model, labels, BATCH, &loss, &correct), 0);
	cr_assert_float_eq(loss, plain_loss(parameters), 1e-5);
	model_destroy(model);
}

Test(model, gradients_are_those_of_finite_differences)
{
	struct model *model = make_model();
	double parameters[COUNT];
	const double step = 1e-5;
	const float scale = 0.5f;
	for (int i = 0; i < COUNT; i++)
		parameters[i] = model->parameters[i];
	model_forward(model, images, BATCH);
	cr_assert_eq(model_backward(model, images, labels, BATCH, scale, note_ready, NULL), 0);
	for (int i = 0; i < COUNT; i++) {
		parameters[i] += step;
		double above = plain_loss(parameters);
		parameters[i] -= 2 * step;
		double below = plain_loss(parameters);
		parameters[i] += step;
		double expected = scale * (above - below) / (2 * step);
		/* Central differences err by step^2; floats of this size by about 1e-7. */
		cr_assert_float_eq(gradients[i], expected, 2e-6, "parameter %d: %g, not %g", i,
			gradients[i], expected);
	}
	model_destroy(model);
}

Test(model, every_gradient_is_announced_once_last_layer_first)
{
	struct model *model = make_model();
	model_forward(model, images, BATCH);
	ready_count = 0;
	cr_assert_eq(model_backward(model, images, labels, BATCH, 1, note_ready, NULL), 0);
	cr_assert_eq(ready_count, 6);
	cr_assert_arr_eq(ready_order, ((int[]){ 4, 5, 2, 3, 0, 1 }), 6 * sizeof(int));
	model_destroy(model);
}

Test(model, backward_returns_what_ready_returns)
{
	struct model *model = make_model();
	model_forward(model, images, BATCH);
	for (int t = 0; t < model->tensor_count; t++)
		cr_assert_eq(model_backward(model, images, labels, BATCH, 1, refuse, &t), -77);
	model_destroy(model);
}

Test(model, no_images_give_gradients_of_zero)
{
	struct model *model = make_model();
	double loss = 1;
	int correct = 1;
	memset(gradients, 1, sizeof(gradients));
	model_forward(model, images, 0);
	cr_assert_eq(model_loss(model, labels, 0, &loss, &correct), 0);
	cr_assert_eq(loss, 0.0);
	cr_assert_eq(correct, 0);
	cr_assert_eq(model_backward(model, images, labels, 0, 1, note_ready, NULL), 0);
	for (int i = 0; i < COUNT; i++)
		cr_assert_eq(gradients[i], 0.0f, "gradient %d is %g", i, gradients[i]);
	model_destroy(model);
}

Test(model, right_guesses_are_counted)
{
	struct model *model = make_model();
	const float *logits = model_forward(model, images, BATCH); /* [BATCH][4] */
	double loss;
	int correct, expected = 0;
	for (int row = 0; row < BATCH; row++) {
		int best = 0;
		for (int c = 1; c < 4; c++)
			if (logits[row * 4 + c] > logits[row * 4 + best])
				best = c;
		labels[row] = row % 2 ? best : (best + 1) % 4;
		expected += row % 2;
	}
	model_loss(model, labels, BATCH, &loss, &correct);
	cr_assert_eq(correct, expected);
	model_destroy(model);
}

Test(model, large_logits_do_not_overflow)
{
	struct model *model = make_model();
	double loss;
	int correct;
	for (size_t i = 0; i < model->parameter_count; i++)
		model->parameters[i] *= 300;
	model_forward(model, images, BATCH);
	cr_assert_eq(model_loss(model, labels, BATCH, &loss, &correct), 0);
	cr_assert(isfinite(loss));
	cr_assert_eq(model_backward(model, images, labels, BATCH, 1, note_ready, NULL), 0);
	for (int i = 0; i < COUNT; i++)
		cr_assert(isfinite(gradients[i]));
	model_destroy(model);
}

Test(model, parameters_follow_from_the_seed)
{
	struct model *one = make_model(), *same = make_model(), *other;
	cr_assert_eq(model_create(&other, cpu, widths, 4, BATCH, 12), 0);
	cr_assert_arr_eq(one->parameters, same->parameters, COUNT * sizeof(float));
	cr_assert_arr_neq(one->parameters, other->parameters, COUNT * sizeof(float));
	model_destroy(one);
	model_destroy(same);
	model_destroy(other);
}
