#include "train/small.h"

#include <criterion/criterion.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/model/networks.h"

struct model *small_model(
	struct device *cpu, const int *widths, int width_count, int batch_max, uint64_t seed)
{
	struct model *model;
	const struct model_config config = {
		.rows = 1, .classes = widths[width_count - 1], .batch_max = batch_max
	};
	cr_assert_eq(model_open(&model, cpu, &config, "Net"), 0, "%s", failure());
	mlp_layers(model, widths, width_count);
	cr_assert_eq(model_finish(model, seed), 0, "%s", failure());
	return model;
}

void small_place(struct model *model, float *gradients)
{
	for (int t = 0; t < model->parameters.count; t++) {
		model->parameters.list[t].grad = gradients;
		gradients += tensor_span(&model->parameters.list[t]);
	}
}

void small_dense(const struct model *model, const float *values, float *dense)
{
	for (int t = 0; t < model->parameters.count; t++) {
		const struct tensor *tensor = &model->parameters.list[t];
		memcpy(dense, values, tensor->count * sizeof(*dense));
		dense += tensor->count;
		values += tensor_span(tensor);
	}
}

void small_forward(struct model *model, const void *inputs, int batch)
{
	cr_assert_eq(model_forward(model, model->passes, inputs, batch, true), 0);
}

double small_loss(struct model *model, const int32_t *labels, int *correct)
{
	double sums[2] = { 0 };
	model_loss(model, model->passes, labels, sums);
	if (correct)
		*correct = (int)sums[1];
	return sums[0];
}

int small_backward(struct model *model, const void *inputs, const int32_t *labels, float scale,
	model_ready *ready, void *argument)
{
	model_loss_grad(model, model->passes, labels, scale);
	return model_backward(model, model->passes, inputs, NULL, ready, argument);
}

int small_ready(void *argument, int tensor)
{
	(void)argument, (void)tensor;
	return 0;
}
