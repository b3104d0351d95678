/* ctest label: instructions */
/*
 * The networks of convolutions: against PyTorch's numbers (logits, loss, gradients, four steps, and
 * batch norm's statistics), and gradients against differences of the loss.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/base/rng.h"
#include "train/model/networks.h"
#include "train/optim/optimizer.h"
#include "train/reference.h"
#include "train/rounding.h"
#include "train/small.h"

#define STEPS 4

/* Forward and backward through the three layers of convnet, in each step; lenet's five have fewer
   products. */
#define TOLERANCE LIKELY_ROUNDING(2 * STEPS * (25 + 16 * 25 + 1568), 1)

/* A network on the CPU, and one batch. */
struct rig {
	struct reference *reference; /* NULL: none */
	struct device *cpu;
	struct model *model;
	float *gradients, *images;
	int32_t labels[8];
	int batch;
	size_t pixels; /* of the batch */
};

static void open_rig(struct rig *rig, const char *name, const struct samples *samples, int batch)
{
	const struct model_config config = { .batch_max = batch };
	*rig = (struct rig){ .batch = batch };
	rig->pixels = (size_t)batch * samples->channels * samples->rows * samples->columns;
	cr_assert_eq(device_create(&rig->cpu, DEVICE_CPU, 0), 0, "%s", failure());
	cr_assert_eq(
		network_create(&rig->model, network_named(name), rig->cpu, samples, &config, 1), 0,
		"%s", failure());
	rig->gradients = calloc(rig->model->parameters.elements, sizeof(float));
	rig->images = calloc(rig->pixels, sizeof(float));
	cr_assert(rig->gradients && rig->images);
	small_place(rig->model, rig->gradients);
}

static void close_rig(struct rig *rig)
{
	if (rig->reference)
		reference_destroy(rig->reference);
	model_destroy(rig->model);
	device_destroy(rig->cpu);
	free(rig->gradients);
	free(rig->images);
}

/* ---- PyTorch's numbers ---- */

static const struct samples mnist = { 1, 28, 28, 10, 0 }, cifar = { 3, 32, 32, 10, 0 };

static void open_recorded(struct rig *rig, const char *name)
{
	bool is_lenet = !strcmp(name, "lenet");
	open_rig(rig, name, is_lenet ? &cifar : &mnist, is_lenet ? 7 : 5);
	rig->reference = reference_read(name);
	for (int t = 0; t < rig->model->parameters.count; t++) {
		struct tensor *tensor = &rig->model->parameters.list[t];
		reference_fill(rig->reference, tensor->name, tensor->value, tensor->count);
	}
}

static void take_batch(struct rig *rig, int step)
{
	char name[32];
	snprintf(name, sizeof(name), "images.%d", step);
	reference_fill(rig->reference, name, rig->images, rig->pixels);
	snprintf(name, sizeof(name), "labels.%d", step);
	for (int i = 0; i < rig->batch; i++)
		rig->labels[i] = reference_integer(rig->reference, name, i);
}

/* Forward and backward; the mean loss. */
static float run_batch(struct rig *rig)
{
	small_forward(rig->model, rig->images, rig->batch);
	double loss = small_loss(rig->model, rig->labels, NULL);
	cr_assert_eq(small_backward(rig->model, rig->images, rig->labels, 1.0f / rig->batch,
			     small_ready, NULL),
		0);
	return loss / rig->batch;
}

static void expect_first_batch(const char *name)
{
	struct rig rig;
	char entry[128];
	open_recorded(&rig, name);
	take_batch(&rig, 0);
	float loss = run_batch(&rig);
	reference_expect(rig.reference, "loss", &loss, 1, TOLERANCE);
	reference_expect(rig.reference, "logits", model_output(rig.model, rig.model->passes),
		rig.batch * 10, TOLERANCE);
	for (int t = 0; t < rig.model->parameters.count; t++) {
		const struct tensor *tensor = &rig.model->parameters.list[t];
		snprintf(entry, sizeof(entry), "grad/%s", tensor->name);
		/* A bias before batch norm has no gradient but rounding: of all pixels, whose
		   absolute gradients add up to 1 at most. */
		if (reference_has(rig.reference, entry))
			reference_expect(
				rig.reference, entry, tensor->grad, tensor->count, TOLERANCE);
		else
			for (size_t i = 0; i < tensor->count; i++)
				cr_assert_float_eq(tensor->grad[i], 0,
					LIKELY_ROUNDING(rig.pixels, 1), "%s", tensor->name);
	}
	close_rig(&rig);
}

Test(convnets, convnets_first_batch_has_its_logits_loss_and_gradients)
{
	expect_first_batch("convnet");
}

Test(convnets, lenets_first_batch_has_its_logits_loss_and_gradients)
{
	expect_first_batch("lenet");
}

static void expect_tensors(
	const struct rig *rig, const char *optimizer, const struct tensors *tensors)
{
	char entry[128];
	for (int t = 0; t < tensors->count; t++) {
		const struct tensor *tensor = &tensors->list[t];
		snprintf(entry, sizeof(entry), "%s.%d/%s", optimizer, STEPS, tensor->name);
		reference_expect(rig->reference, entry, tensor->value, tensor->count, TOLERANCE);
	}
}

/* Four steps give its losses, and end at its parameters and statistics. */
static void train(struct rig *rig, const char *name, struct optimizer_config config, float rate)
{
	struct optimizer *optimizer;
	char entry[128];
	cr_assert_eq(
		optimizer_create(&optimizer, rig->cpu, &config, rig->model->parameters.elements),
		0);
	for (int step = 0; step < STEPS; step++) {
		take_batch(rig, step);
		float loss = run_batch(rig);
		snprintf(entry, sizeof(entry), "%s.%d/loss", name, step);
		reference_expect(rig->reference, entry, &loss, 1, TOLERANCE);
		optimizer_step(optimizer, &rig->model->parameters, rate);
	}
	optimizer_destroy(optimizer);
	expect_tensors(rig, name, &rig->model->parameters);
	expect_tensors(rig, name, &rig->model->buffers);
}

static struct optimizer_config clipped_momentum(void)
{
	struct optimizer_config config = optimizer_defaults(OPTIMIZER_SGD);
	config.momentum = 0.9f;
	config.weight_decay = 1e-4f;
	config.max_norm = 0.25f;
	return config;
}

Test(convnets, convnet_trains_and_evaluates_as_in_pytorch)
{
	struct rig rig;
	open_recorded(&rig, "convnet");
	train(&rig, "sgd", optimizer_defaults(OPTIMIZER_SGD), 0.1f);
	take_batch(&rig, 0);
	cr_assert_eq(model_forward(rig.model, rig.model->passes, rig.images, rig.batch, false), 0);
	reference_expect(rig.reference, "sgd.4/evaluated_logits",
		model_output(rig.model, rig.model->passes), rig.batch * 10, TOLERANCE);
	/* Evaluation leaves the statistics. */
	expect_tensors(&rig, "sgd", &rig.model->buffers);
	close_rig(&rig);
}

Test(convnets, both_train_with_momentum_as_in_pytorch)
{
	for (int lenet = 0; lenet < 2; lenet++) {
		struct rig rig;
		open_recorded(&rig, lenet ? "lenet" : "convnet");
		train(&rig, "momentum", clipped_momentum(), 0.01f);
		close_rig(&rig);
	}
}

/* ---- Differences of the loss ---- */

static double loss_at(struct rig *rig, struct tensor *tensor, const float *start,
	const float *direction, float step)
{
	for (size_t i = 0; i < tensor->count; i++)
		tensor->value[i] = start[i] + step * direction[i];
	small_forward(rig->model, rig->images, rig->batch);
	return small_loss(rig->model, rig->labels, NULL);
}

static double slope_by(struct rig *rig, struct tensor *tensor, const float *start,
	const float *direction, float step)
{
	return (loss_at(rig, tensor, start, direction, step) -
		       loss_at(rig, tensor, start, direction, -step)) /
	       (2 * step);
}

/* The slope of the loss in a random direction of one tensor is that of its gradient. */
static void expect_slope(struct rig *rig, struct tensor *tensor, struct rng *rng)
{
	const float step = 1.0f / 2048;
	float *start = malloc(tensor->count * sizeof(float));
	float *direction = malloc(tensor->count * sizeof(float));
	double slope = 0, length = 0;
	cr_assert(start && direction);
	for (size_t i = 0; i < tensor->count; i++) {
		start[i] = tensor->value[i];
		direction[i] = rng_between(rng, -1, 1);
		length += direction[i] * direction[i];
	}
	for (size_t i = 0; i < tensor->count; i++) {
		direction[i] /= sqrt(length);
		slope += tensor->grad[i] * direction[i];
	}
	double slopes[2];
	for (int k = 0; k < 2; k++)
		slopes[k] = slope_by(rig, tensor, start, direction, step / (1 + k));
	/* As in test_gpt.c, but that ReLU and pooling have corners: one of them within a step turns
	   the slope by its part, which the difference shows, half of it at least. */
	cr_assert_float_eq(slopes[1], slope,
		2 * fabs(slopes[0] - slopes[1]) + LIKELY_ROUNDING(25 + 16 * 25 + 1568, 3) / step,
		"%s: %g instead of %g", tensor->name, slope, slopes[1]);
	memcpy(tensor->value, start, tensor->count * sizeof(float));
	free(start);
	free(direction);
}

static void expect_slopes(const char *name, const struct samples *samples)
{
	struct rig rig;
	struct rng rng = rng_make(5, 0);
	open_rig(&rig, name, samples, 8);
	for (size_t i = 0; i < rig.pixels; i++)
		rig.images[i] = rng_between(&rng, -1, 1);
	for (int i = 0; i < rig.batch; i++)
		rig.labels[i] = rng_below(&rng, samples->classes);
	small_forward(rig.model, rig.images, rig.batch);
	cr_assert_eq(small_backward(rig.model, rig.images, rig.labels, 1, small_ready, NULL), 0);
	for (int t = 0; t < rig.model->parameters.count; t++)
		for (int direction = 0; direction < 5; direction++)
			expect_slope(&rig, &rig.model->parameters.list[t], &rng);
	close_rig(&rig);
}

Test(convnets, gradients_of_convnet_are_differences_of_the_loss)
{
	expect_slopes("convnet", &(struct samples){ 2, 9, 11, 4, 0 });
}

Test(convnets, gradients_of_lenet_are_differences_of_the_loss)
{
	expect_slopes("lenet", &(struct samples){ 2, 17, 20, 4, 0 });
}

/* ---- Shape ---- */

Test(convnets, they_have_the_parameters_of_the_tutorials)
{
	struct rig rig;
	char *text;
	size_t size;
	open_rig(&rig, "convnet", &mnist, 1);
	cr_assert_eq(model_parameter_count(rig.model), 29034);
	cr_assert_eq(rig.model->buffers.count, 4);
	FILE *out = open_memstream(&text, &size);
	model_print(rig.model, out);
	fclose(out);
	cr_assert_str_eq(text,
		"ConvNet(\n"
		"  (layer1): Sequential(\n"
		"    (0): Conv2d(1, 16, kernel_size=(5, 5), stride=(1, 1), padding=(2, 2))\n"
		"    (1): BatchNorm2d(16, eps=1e-05, momentum=0.1, affine=True, "
		"track_running_stats=True)\n"
		"    (2): ReLU()\n"
		"    (3): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, "
		"ceil_mode=False)\n"
		"  )\n"
		"  (layer2): Sequential(\n"
		"    (0): Conv2d(16, 32, kernel_size=(5, 5), stride=(1, 1), padding=(2, 2))\n"
		"    (1): BatchNorm2d(32, eps=1e-05, momentum=0.1, affine=True, "
		"track_running_stats=True)\n"
		"    (2): ReLU()\n"
		"    (3): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, "
		"ceil_mode=False)\n"
		"  )\n"
		"  (fc): Linear(in_features=1568, out_features=10, bias=True)\n"
		")\n");
	free(text);
	close_rig(&rig);
	open_rig(&rig, "lenet", &cifar, 1);
	cr_assert_eq(model_parameter_count(rig.model), 62006);
	cr_assert_eq(rig.model->buffers.count, 0);
	close_rig(&rig);
}

Test(convnets, first_values_are_those_of_pytorchs_initialisation)
{
	struct rig rig;
	open_rig(&rig, "convnet", &mnist, 1);
	for (int t = 0; t < rig.model->parameters.count; t++) {
		const struct tensor *tensor = &rig.model->parameters.list[t];
		bool is_norm = strstr(tensor->name, ".1.") != NULL;
		int inputs = !strncmp(tensor->name, "fc", 2)       ? 1568
			     : !strncmp(tensor->name, "layer1", 6) ? 25
								   : 400;
		float greatest = 0;
		for (size_t i = 0; i < tensor->count; i++) {
			if (is_norm)
				cr_assert_eq(tensor->value[i], strstr(tensor->name, "weight") != 0);
			greatest = fmaxf(greatest, fabsf(tensor->value[i]));
		}
		if (!is_norm) /* the largest of 10 draws or more */
			cr_assert(greatest <= 1 / sqrtf(inputs) && greatest > 0.5 / sqrtf(inputs),
				"%s: %g", tensor->name, greatest);
	}
	close_rig(&rig);
}

Test(convnets, samples_of_other_kinds_are_refused)
{
	static const struct samples text = { 0, 0, 0, 256, 64 }, tiny = { 1, 3, 3, 10, 0 };
	const struct model_config config = { .batch_max = 1 };
	struct device *cpu;
	struct model *model;
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0);
	cr_assert(network_create(&model, network_named("convnet"), cpu, &text, &config, 1));
	cr_assert_str_eq(failure(), "--model convnet: needs images, and this set is a text");
	cr_assert(network_create(&model, network_named("convnet"), cpu, &tiny, &config, 1));
	cr_assert_str_eq(
		failure(), "--model convnet: needs images of at least 4 x 4, and these have 3 x 3");
	cr_assert(network_create(&model, network_named("lenet"), cpu, &tiny, &config, 1));
	device_destroy(cpu);
}
