/* ctest label: instructions */
/* The classifier against PyTorch's numbers: logits, loss, gradients, and four steps. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/model/model.h"
#include "train/optim/optimizer.h"
#include "train/reference.h"
#include "train/rounding.h"
#include "train/small.h"

#define BATCH 5
#define PIXELS 784
#define STEPS 4

/* Ten times the error of PyTorch's own float32. */
/* Forward and backward through three layers, in each step. */
#define TOLERANCE LIKELY_ROUNDING(2 * STEPS * (784 + 512 + 512), 1)

static struct reference *reference;
static struct device *cpu;
static struct model *model;
static float gradients[784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 16];
static float images[BATCH * PIXELS];
static int32_t labels[BATCH];

static void open_model(void)
{
	reference = reference_read("mlp");
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0, "%s", failure());
	model = small_model(cpu, (int[]){ PIXELS, 512, 512, 10 }, 4, BATCH, 1);
	cr_assert_eq(model->parameters.count, 6);
	cr_assert_eq(model->parameters.elements, sizeof(gradients) / sizeof(*gradients));
	small_place(model, gradients);
	for (int t = 0; t < 6; t++) {
		struct tensor *tensor = &model->parameters.list[t];
		reference_fill(reference, tensor->name, tensor->value, tensor->count);
	}
}

static void close_model(void)
{
	model_destroy(model);
	device_destroy(cpu);
	reference_destroy(reference);
}

TestSuite(pytorch, .init = open_model, .fini = close_model);

static void take_batch(int step)
{
	char name[32];
	snprintf(name, sizeof(name), "images.%d", step);
	reference_fill(reference, name, images, BATCH * PIXELS);
	snprintf(name, sizeof(name), "labels.%d", step);
	for (size_t i = 0; i < BATCH; i++)
		labels[i] = reference_integer(reference, name, i);
}

/* Forward and backward; the mean loss. */
static float run_batch(void)
{
	small_forward(model, images, BATCH);
	double loss = small_loss(model, labels, NULL);
	cr_assert_eq(small_backward(model, images, labels, 1.0f / BATCH, small_ready, NULL), 0);
	return loss / BATCH;
}

Test(pytorch, one_batch_has_its_logits_loss_and_gradients)
{
	char name[128];
	take_batch(0);
	float loss = run_batch();
	reference_expect(reference, "loss", &loss, 1, TOLERANCE);
	small_forward(model, images, BATCH);
	reference_expect(
		reference, "logits", model_output(model, model->passes), BATCH * 10, TOLERANCE);
	for (int t = 0; t < 6; t++) {
		snprintf(name, sizeof(name), "grad/%s", model->parameters.list[t].name);
		reference_expect(reference, name, model->parameters.list[t].grad,
			model->parameters.list[t].count, TOLERANCE);
	}
}

/* The sums see the elements between the stored ones. */
Test(pytorch, any_wrong_element_differs)
{
	const char *name = "grad/linear_relu_stack.2.bias";
	char reason[256];
	float *grad = model->parameters.list[3].grad;
	take_batch(0);
	run_batch();
	for (int i = 0; i < 512; i++) {
		float right = grad[i];
		cr_assert_not(reference_differs(reference, name, grad, 512, TOLERANCE, reason));
		grad[i] = right + 1e-3f;
		cr_assert(reference_differs(reference, name, grad, 512, TOLERANCE, reason),
			"element %d", i);
		grad[i] = right;
	}
}

/* Four steps give its losses and norms, and end at its parameters. */
static void expect_training(const char *name, struct optimizer_config config, float rate)
{
	struct optimizer *optimizer;
	char entry[128];
	cr_assert_eq(optimizer_create(&optimizer, cpu, &config, model->parameters.elements), 0);
	for (int step = 0; step < STEPS; step++) {
		take_batch(step);
		float loss = run_batch(), norm;
		snprintf(entry, sizeof(entry), "%s.%d/loss", name, step);
		reference_expect(reference, entry, &loss, 1, TOLERANCE);
		optimizer_step(optimizer, &model->parameters, rate);
		snprintf(entry, sizeof(entry), "%s.%d/norm", name, step);
		norm = sqrtf((float)*optimizer->square_sum);
		if (config.max_norm > 0)
			reference_expect(reference, entry, &norm, 1, TOLERANCE);
	}
	for (int t = 0; t < model->parameters.count; t++) {
		const struct tensor *tensor = &model->parameters.list[t];
		snprintf(entry, sizeof(entry), "%s.%d/%s", name, STEPS, tensor->name);
		reference_expect(reference, entry, tensor->value, tensor->count, TOLERANCE);
	}
	optimizer_destroy(optimizer);
}

Test(pytorch, sgd_ends_at_its_parameters)
{
	expect_training("sgd", optimizer_defaults(OPTIMIZER_SGD), 0.1f);
}

static struct optimizer_config momentum(void)
{
	struct optimizer_config config = optimizer_defaults(OPTIMIZER_SGD);
	config.momentum = 0.9f;
	config.weight_decay = 1e-4f;
	return config;
}

Test(pytorch, clipped_momentum_ends_at_its_parameters)
{
	struct optimizer_config config = momentum();
	config.max_norm = 0.25f;
	expect_training("momentum", config, 0.01f);
}

Test(pytorch, nesterovs_momentum_ends_at_its_parameters)
{
	struct optimizer_config config = momentum();
	config.nesterov = true;
	expect_training("nesterov", config, 0.01f);
}

Test(pytorch, adam_ends_at_its_parameters)
{
	expect_training("adam", optimizer_defaults(OPTIMIZER_ADAM), 1e-3f);
}

Test(pytorch, adamw_ends_at_its_parameters)
{
	expect_training("adamw", optimizer_defaults(OPTIMIZER_ADAMW), 1e-3f);
}
