#include "train/optim/optimizer.h"

#include <stdlib.h>

#include "train/base/fail.h"

struct optimizer_config optimizer_defaults(enum optimizer_kind kind)
{
	struct optimizer_config config = { .kind = kind };
	if (kind == OPTIMIZER_SGD)
		return config;
	config.beta1 = 0.9f;
	config.beta2 = 0.999f;
	config.epsilon = 1e-8f;
	config.weight_decay = kind == OPTIMIZER_ADAMW ? 0.01f : 0;
	return config;
}

int optimizer_create(struct optimizer **out, struct device *device,
	const struct optimizer_config *config, size_t elements)
{
	struct optimizer *optimizer = calloc(1, sizeof(*optimizer));
	*out = NULL;
	if (!optimizer)
		return fail("out of memory");
	optimizer->device = device;
	optimizer->config = *config;
	optimizer->elements = elements;
	optimizer->state_count = config->kind != OPTIMIZER_SGD ? 2 : config->momentum > 0;
	int err = device->ops->alloc(
		device, (void **)&optimizer->square_sum, sizeof(*optimizer->square_sum));
	if (!err)
		err = device->ops->alloc(
			device, (void **)&optimizer->factor, sizeof(*optimizer->factor));
	for (int s = 0; !err && s < optimizer->state_count; s++)
		err = device->ops->alloc(
			device, (void **)&optimizer->state[s], elements * sizeof(float));
	if (err)
		optimizer_destroy(optimizer);
	else
		*out = optimizer;
	return err;
}

void optimizer_destroy(struct optimizer *optimizer)
{
	if (!optimizer)
		return;
	struct device *device = optimizer->device;
	device->ops->free(device, optimizer->square_sum);
	device->ops->free(device, optimizer->factor);
	for (int s = 0; s < optimizer->state_count; s++)
		device->ops->free(device, optimizer->state[s]);
	free(optimizer);
}

void optimizer_begin(struct optimizer *optimizer)
{
	struct device *device = optimizer->device;
	optimizer->step++;
	optimizer->scaled = false;
	device->ops->clear(device, optimizer->square_sum, sizeof(*optimizer->square_sum));
}

bool optimizer_is_plain(const struct optimizer *optimizer)
{
	const struct optimizer_config *config = &optimizer->config;
	return config->kind == OPTIMIZER_SGD && config->momentum == 0 &&
	       config->weight_decay == 0 && !optimizer_measures(optimizer);
}

void optimizer_measure(struct optimizer *optimizer, size_t count, const float *grad)
{
	struct device *device = optimizer->device;
	device->ops->square_sum(device, count, grad, optimizer->square_sum);
}

bool optimizer_measures(const struct optimizer *optimizer)
{
	return optimizer->config.max_norm > 0 || optimizer->loss_scale > 0;
}

void optimizer_clip(struct optimizer *optimizer)
{
	struct device *device = optimizer->device;
	float unscale = optimizer->loss_scale > 0 ? 1 / optimizer->loss_scale : 1;
	device->ops->clip_factor(device, optimizer->square_sum, optimizer->config.max_norm, unscale,
		optimizer->factor);
	optimizer->scaled = true;
}

void optimizer_update(struct optimizer *optimizer, float rate, size_t offset, size_t count,
	const float *grad, float *value)
{
	struct device *device = optimizer->device;
	const struct optimizer_config *config = &optimizer->config;
	const float *factor = optimizer->scaled ? optimizer->factor : NULL;
	float *first = optimizer->state_count > 0 ? optimizer->state[0] + offset : NULL;
	if (config->kind == OPTIMIZER_SGD) {
		const struct sgd sgd = {
			.rate = rate,
			.momentum = config->momentum,
			.weight_decay = config->weight_decay,
			.nesterov = config->nesterov,
			.first = optimizer->step == 1,
		};
		device->ops->sgd(device, &sgd, count, grad, factor, value, first);
		return;
	}
	const struct adam adam = {
		.rate = rate,
		.beta1 = config->beta1,
		.beta2 = config->beta2,
		.epsilon = config->epsilon,
		.weight_decay = config->weight_decay,
		.decoupled = config->kind == OPTIMIZER_ADAMW,
		.step = optimizer->step,
	};
	device->ops->adam(
		device, &adam, count, grad, factor, value, first, optimizer->state[1] + offset);
}

void optimizer_apply(struct optimizer *optimizer, const struct tensors *parameters, float rate)
{
	for (int t = 0; t < parameters->count; t++) {
		const struct tensor *tensor = &parameters->list[t];
		if (!tensor->stepped)
			optimizer_update(optimizer, rate, tensor->value - parameters->values,
				tensor->count, tensor->grad, tensor->value);
	}
}

void optimizer_step(struct optimizer *optimizer, const struct tensors *parameters, float rate)
{
	optimizer_begin(optimizer);
	if (optimizer_measures(optimizer)) {
		for (int t = 0; t < parameters->count; t++)
			optimizer_measure(
				optimizer, parameters->list[t].count, parameters->list[t].grad);
		optimizer_clip(optimizer);
	}
	optimizer_apply(optimizer, parameters, rate);
}
