#include "train/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/model/layer.h"

static const struct train_world alone = { .size = 1 };

/* ---- Beginning and end ---- */

int model_open(struct model **out, struct device *device, const struct model_config *config,
	const char *title)
{
	struct model *model = calloc(1, sizeof(*model));
	*out = NULL;
	if (!model)
		return fail("out of memory");
	model->device = device;
	model->shared = -1;
	model->config = *config;
	if (!model->config.passes)
		model->config.passes = 1;
	if (!model->config.tensor_group)
		model->config.tensor_group = &alone;
	if (!model->config.last_layer)
		model->config.last_layer = INT_MAX;
	*out = model;
	model->root = layer_root(model, title);
	if (!model->root) {
		model_destroy(model);
		*out = NULL;
		return fail("out of memory");
	}
	return 0;
}

static int place_tensors(struct model *model, struct tensors *tensors, uint64_t seed)
{
	struct device *device = model->device;
	size_t size = tensors->elements * sizeof(float);
	if (!size)
		return 0;
	int err = device->ops->alloc(device, (void **)&tensors->values, size);
	if (err)
		return err;
	float *next = tensors->values, *drawn = malloc(size);
	if (!drawn)
		return fail("out of memory for %zu parameters", tensors->elements);
	for (int t = 0; t < tensors->count; t++) {
		tensors->list[t].value = next;
		next += tensor_span(&tensors->list[t]);
	}
	/* Drawn on the host, so that they are the same on every device. */
	tensors_draw(tensors, seed, drawn);
	model_write(model, tensors, drawn);
	free(drawn);
	return 0;
}

static int place_passes(struct model *model)
{
	struct device *device = model->device;
	size_t size = model->activation_count * sizeof(float);
	model->passes = calloc(model->config.passes, sizeof(*model->passes));
	if (!model->passes)
		return fail("out of memory");
	int err = 0;
	for (int p = 0; !err && p < model->config.passes; p++)
		err = device->ops->alloc(device, (void **)&model->passes[p].activations, size);
	if (!err)
		err = device->ops->alloc(
			device, (void **)&model->grads, model->grad_count * sizeof(float));
	return err;
}

int model_finish(struct model *model, uint64_t seed)
{
	if (model->error)
		return model->error;
	layer_prune(model->root);
	if (!model->root->layer_count)
		return fail("this stage of the model has no layers: it has %d in all",
			model->layer_count);
	model->in = layer_first(model->root)->in;
	model->out = layer_last(model->root)->out;
	int err = place_tensors(model, &model->parameters, seed);
	if (!err)
		err = place_tensors(model, &model->buffers, seed);
	return err ? err : place_passes(model);
}

static void free_tensors(struct model *model, struct tensors *tensors)
{
	model->device->ops->free(model->device, tensors->values);
	free(tensors->list);
}

void model_destroy(struct model *model)
{
	if (!model)
		return;
	const struct device_ops *ops = model->device->ops;
	for (int p = 0; model->passes && p < model->config.passes; p++)
		ops->free(model->device, model->passes[p].activations);
	free(model->passes);
	ops->free(model->device, model->grads);
	free_tensors(model, &model->parameters);
	free_tensors(model, &model->buffers);
	layer_destroy(model->root);
	free(model);
}

/* ---- Reading and writing ---- */

/* Its layers, one a line or more. PyTorch's classes do not have those without a name. */
static void print_layers(const struct layer *layer, int depth, FILE *out)
{
	for (int l = 0; l < layer->layer_count; l++) {
		const struct layer *inner = layer->layers[l];
		if (!*inner->name && !inner->kind->print) {
			print_layers(inner, depth, out);
			continue;
		}
		fprintf(out, "%*s", depth, "");
		if (*inner->name)
			fprintf(out, "(%s): ", inner->name);
		if (inner->kind->print) {
			inner->kind->print(inner, out);
		} else {
			fprintf(out, "%s(\n", inner->title);
			print_layers(inner, depth + 2, out);
			fprintf(out, "%*s)", depth, "");
		}
		fprintf(out, "\n");
	}
}

void model_print(const struct model *model, FILE *out)
{
	fprintf(out, "%s(\n", model->root->title);
	print_layers(model->root, 2, out);
	fprintf(out, ")\n");
}

size_t model_parameter_count(const struct model *model)
{
	size_t count = 0;
	for (int t = 0; t < model->parameters.count; t++)
		count += model->parameters.list[t].count;
	return count;
}

const struct tensor *model_shared(const struct model *model)
{
	return model->shared < 0 ? NULL : &model->parameters.list[model->shared];
}

int model_read(const struct model *model, const struct tensors *tensors, float *values)
{
	if (!tensors->elements)
		return 0;
	return model->device->ops->get(
		model->device, values, tensors->values, tensors->elements * sizeof(float));
}

void model_write(struct model *model, const struct tensors *tensors, const float *values)
{
	if (tensors->elements)
		model->device->ops->put(
			model->device, tensors->values, values, tensors->elements * sizeof(float));
}

/* ---- Passes ---- */

int model_forward(
	struct model *model, struct pass *pass, const void *inputs, int batch, bool training)
{
	pass->batch = batch;
	pass->norm_batch = model->norm_sum ? model->norm_batch : batch;
	pass->training = training;
	return model->root->kind->forward(model->root, pass, inputs);
}

float *model_output(const struct model *model, const struct pass *pass)
{
	return layer_output(model->root, pass);
}

float *model_output_grad(const struct model *model, const struct pass *pass)
{
	return layer_grad(model->root, pass);
}

void model_loss(
	const struct model *model, const struct pass *pass, const int32_t *labels, double *sums)
{
	struct device *device = model->device;
	device->ops->loss(device, pass->batch * model->config.rows, model->config.classes,
		model_output(model, pass), labels, sums);
}

void model_loss_grad(struct model *model, struct pass *pass, const int32_t *labels, float scale)
{
	struct device *device = model->device;
	device->ops->loss_grad(device, pass->batch * model->config.rows, model->config.classes,
		model_output(model, pass), labels, scale, model_output_grad(model, pass));
}

int model_backward(struct model *model, struct pass *pass, const void *inputs, float *in_grad,
	model_ready *ready, void *argument)
{
	pass->ready = ready;
	pass->argument = argument;
	return model->root->kind->backward(model->root, pass, inputs, in_grad);
}
