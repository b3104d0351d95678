/* ctest label: instructions */
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
#include "train/rounding.h"
#include "train/small.h"

#define BATCH 5

static const int widths[] = { 7, 6, 5, 4 };
#define COUNT (7 * 6 + 6 + 6 * 5 + 5 + 5 * 4 + 4)

static struct device *cpu;
static float images[BATCH * 7];
static int32_t labels[BATCH];
static float gradients[COUNT]; /* dense, of the last backward() */
static float placed[4096]; /* as the model has them */
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
	struct model *model = small_model(cpu, widths, 4, BATCH, 11);
	struct rng rng = rng_make(3, 0);
	cr_assert_eq(model_parameter_count(model), COUNT);
	cr_assert_leq(model->parameters.elements, sizeof(placed) / sizeof(*placed));
	for (int i = 0; i < BATCH * 7; i++)
		images[i] = rng_between(&rng, -1, 1);
	for (int i = 0; i < BATCH; i++)
		labels[i] = rng_below(&rng, 4);
	small_place(model, placed);
	return model;
}

static void backward(struct model *model, float scale)
{
	cr_assert_eq(small_backward(model, images, labels, scale, note_ready, NULL), 0);
	small_dense(model, placed, gradients);
}

static void read_parameters(const struct model *model, double parameters[COUNT])
{
	float dense[COUNT];
	small_dense(model, model->parameters.values, dense);
	for (int i = 0; i < COUNT; i++)
		parameters[i] = dense[i];
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
	double parameters[COUNT];
	read_parameters(model, parameters);
	small_forward(model, images, BATCH);
	/* Three sums of eight floats at most, and a softmax, for losses of 2 at most. */
	cr_assert_float_eq(small_loss(model, labels, NULL), plain_loss(parameters),
		ROUNDING(3 * 8 + 8, BATCH * 2));
	model_destroy(model);
}

Test(model, gradients_are_those_of_finite_differences)
{
	struct model *model = make_model();
	double parameters[COUNT];
	const double step = 1e-5;
	const float scale = 0.5f;
	read_parameters(model, parameters);
	small_forward(model, images, BATCH);
	backward(model, scale);
	for (int i = 0; i < COUNT; i++) {
		parameters[i] += step;
		double above = plain_loss(parameters);
		parameters[i] -= 2 * step;
		double below = plain_loss(parameters);
		parameters[i] += step;
		double expected = scale * (above - below) / (2 * step);
		/* Central differences err by step^2, which is less. */
		cr_assert_float_eq(gradients[i], expected, ROUNDING(2 * (3 * 8 + 8), 1),
			"parameter %d: %g, not %g", i, gradients[i], expected);
	}
	model_destroy(model);
}

Test(model, every_gradient_is_announced_once_last_layer_first)
{
	struct model *model = make_model();
	small_forward(model, images, BATCH);
	ready_count = 0;
	backward(model, 1);
	cr_assert_eq(ready_count, 6);
	cr_assert_arr_eq(ready_order, ((int[]){ 4, 5, 2, 3, 0, 1 }), 6 * sizeof(int));
	model_destroy(model);
}

Test(model, backward_returns_what_ready_returns)
{
	struct model *model = make_model();
	small_forward(model, images, BATCH);
	for (int t = 0; t < model->parameters.count; t++)
		cr_assert_eq(small_backward(model, images, labels, 1, refuse, &t), -77);
	model_destroy(model);
}

Test(model, no_images_give_gradients_of_zero)
{
	struct model *model = make_model();
	int correct = 1;
	memset(placed, 1, sizeof(placed));
	small_forward(model, images, 0);
	cr_assert_eq(small_loss(model, labels, &correct), 0.0);
	cr_assert_eq(correct, 0);
	backward(model, 1);
	for (int i = 0; i < COUNT; i++)
		cr_assert_eq(gradients[i], 0.0f, "gradient %d is %g", i, gradients[i]);
	model_destroy(model);
}

Test(model, right_guesses_are_counted)
{
	struct model *model = make_model();
	const float *logits = model_output(model, model->passes); /* [BATCH][4] */
	int correct, expected = 0;
	small_forward(model, images, BATCH);
	for (int row = 0; row < BATCH; row++) {
		int best = 0;
		for (int c = 1; c < 4; c++)
			if (logits[row * 4 + c] > logits[row * 4 + best])
				best = c;
		labels[row] = row % 2 ? best : (best + 1) % 4;
		expected += row % 2;
	}
	small_loss(model, labels, &correct);
	cr_assert_eq(correct, expected);
	model_destroy(model);
}

Test(model, large_logits_do_not_overflow)
{
	struct model *model = make_model();
	for (size_t i = 0; i < model->parameters.elements; i++)
		model->parameters.values[i] *= 300;
	small_forward(model, images, BATCH);
	cr_assert(isfinite(small_loss(model, labels, NULL)));
	backward(model, 1);
	for (int i = 0; i < COUNT; i++)
		cr_assert(isfinite(gradients[i]));
	model_destroy(model);
}

Test(model, parameters_follow_from_the_seed)
{
	struct model *one = make_model(), *same = make_model(), *other;
	other = small_model(cpu, widths, 4, BATCH, 12);
	size_t size = one->parameters.elements * sizeof(float);
	cr_assert_arr_eq(one->parameters.values, same->parameters.values, size);
	cr_assert_arr_neq(one->parameters.values, other->parameters.values, size);
	model_destroy(one);
	model_destroy(same);
	model_destroy(other);
}
