#include "train/model/model.h"

#include <math.h>
#include <stdlib.h>

#include "train/base/fail.h"
#include "train/base/rng.h"

/* A kind of layer. One without tensors never calls ready. */
struct layer_kind {
	void (*print)(const struct layer *layer, FILE *out);
	void (*forward)(const struct model *model, const struct layer *layer,
		const float *input /* [batch][in] */, int batch);
	/* From layer->output_grad; input_grad may be NULL. */
	int (*backward)(const struct model *model, const struct layer *layer,
		const float *input /* [batch][in] */, float *input_grad /* [batch][in] */,
		int batch, model_ready *ready, void *argument);
};

/* ---- Linear: output = input weight^T + bias ---- */

static void linear_print(const struct layer *layer, FILE *out)
{
	fprintf(out, "Linear(in_features=%d, out_features=%d, bias=True)", layer->in, layer->out);
}

static void linear_forward(
	const struct model *model, const struct layer *layer, const float *input, int batch)
{
	struct device *device = model->device;
	int in = layer->in, out = layer->out;
	const float *weight = model->tensors[layer->weight].value; /* [out][in] */
	const float *bias = model->tensors[layer->bias].value; /* [out] */
	device->ops->spread(device, batch, out, bias, layer->output);
	device_multiply(device, batch, out, in, input, AS_IS, weight, TRANSPOSED, 1, layer->output);
}

static int linear_backward(const struct model *model, const struct layer *layer, const float *input,
	float *input_grad, int batch, model_ready *ready, void *argument)
{
	struct device *device = model->device;
	int in = layer->in, out = layer->out;
	const float *weight = model->tensors[layer->weight].value; /* [out][in] */
	float *weight_grad = model->tensors[layer->weight].grad; /* [out][in] */
	float *bias_grad = model->tensors[layer->bias].grad; /* [out] */
	/* The parameters' gradients come first: their all-reduce overlaps the input's gradient. */
	device_multiply(device, out, in, batch, layer->output_grad, TRANSPOSED, input, AS_IS, 0,
		weight_grad);
	int err = ready(argument, layer->weight);
	if (err)
		return err;
	device->ops->column_sums(device, batch, out, layer->output_grad, bias_grad);
	err = ready(argument, layer->bias);
	if (!err && input_grad)
		device_multiply(device, batch, in, out, layer->output_grad, AS_IS, weight, AS_IS, 0,
			input_grad);
	return err;
}

static const struct layer_kind linear = { linear_print, linear_forward, linear_backward };

/* ---- ReLU: output = max(input, 0) ---- */

static void relu_print(const struct layer *layer, FILE *out)
{
	(void)layer;
	fprintf(out, "ReLU()");
}

static void relu_forward(
	const struct model *model, const struct layer *layer, const float *input, int batch)
{
	struct device *device = model->device;
	device->ops->relu(device, (size_t)batch * layer->out, input, layer->output);
}

static int relu_backward(const struct model *model, const struct layer *layer, const float *input,
	float *input_grad, int batch, model_ready *ready, void *argument)
{
	struct device *device = model->device;
	(void)input, (void)ready, (void)argument;
	device->ops->relu_grad(
		device, (size_t)batch * layer->out, layer->output, layer->output_grad, input_grad);
	return 0;
}

static const struct layer_kind relu = { relu_print, relu_forward, relu_backward };

/* ---- The model ---- */

static int add_tensor(struct model *model, size_t count)
{
	model->tensors[model->tensor_count].count = count;
	model->parameter_count += count;
	return model->tensor_count++;
}

static void add_layer(struct model *model, const struct layer_kind *kind, int in, int out)
{
	struct layer *layer = &model->layers[model->layer_count++];
	*layer = (struct layer){ .kind = kind, .in = in, .out = out, .weight = -1, .bias = -1 };
	if (kind == &linear) {
		layer->weight = add_tensor(model, (size_t)out * in);
		layer->bias = add_tensor(model, out);
	}
}

static int place_activations(struct model *model)
{
	size_t count = 0;
	for (int l = 0; l < model->layer_count; l++)
		count += 2 * (size_t)model->batch_max * model->layers[l].out;
	int err = model->device->ops->alloc(
		model->device, (void **)&model->activations, count * sizeof(float));
	if (err)
		return err;
	float *next = model->activations;
	for (int l = 0; l < model->layer_count; l++) {
		size_t size = (size_t)model->batch_max * model->layers[l].out;
		model->layers[l].output = next;
		model->layers[l].output_grad = next + size;
		next += 2 * size;
	}
	return model->device->ops->alloc(
		model->device, (void **)&model->sums, 2 * sizeof(*model->sums));
}

static int place_parameters(struct model *model)
{
	int err = model->device->ops->alloc(
		model->device, (void **)&model->parameters, model->parameter_count * sizeof(float));
	float *next = model->parameters;
	for (int t = 0; !err && t < model->tensor_count; t++) {
		model->tensors[t].value = next;
		next += model->tensors[t].count;
	}
	return err;
}

/* Drawn on the host, so that they are the same on every device. */
static int draw_parameters(struct model *model, uint64_t seed)
{
	struct rng rng = rng_make(seed, 0);
	float *drawn = malloc(model->parameter_count * sizeof(float)), *next = drawn;
	if (!drawn)
		return fail("out of memory for %zu parameters", model->parameter_count);
	for (int l = 0; l < model->layer_count; l++) {
		const struct layer *layer = &model->layers[l];
		float bound = 1.0f / sqrtf((float)layer->in);
		if (layer->weight < 0)
			continue;
		for (int t = layer->weight; t <= layer->bias; t++)
			for (size_t i = 0; i < model->tensors[t].count; i++)
				*next++ = rng_between(&rng, -bound, bound);
	}
	model_write(model, drawn);
	free(drawn);
	return 0;
}

int model_create(struct model **out, struct device *device, const int *widths, int width_count,
	int batch_max, uint64_t seed)
{
	struct model *model = calloc(1, sizeof(*model));
	*out = NULL;
	if (!model)
		return fail("out of memory");
	model->device = device;
	model->in = widths[0];
	model->classes = widths[width_count - 1];
	model->batch_max = batch_max;
	for (int i = 1; i < width_count; i++) {
		add_layer(model, &linear, widths[i - 1], widths[i]);
		if (i < width_count - 1)
			add_layer(model, &relu, widths[i], widths[i]);
	}
	int err = place_parameters(model);
	if (!err)
		err = place_activations(model);
	if (!err)
		err = draw_parameters(model, seed);
	if (err)
		model_destroy(model);
	else
		*out = model;
	return err;
}

void model_destroy(struct model *model)
{
	if (!model)
		return;
	model->device->ops->free(model->device, model->parameters);
	model->device->ops->free(model->device, model->activations);
	model->device->ops->free(model->device, model->sums);
	free(model);
}

void model_print(const struct model *model, FILE *out)
{
	fprintf(out, "NeuralNetwork(\n  (flatten): Flatten(start_dim=1, end_dim=-1)\n"
		     "  (linear_relu_stack): Sequential(\n");
	for (int l = 0; l < model->layer_count; l++) {
		fprintf(out, "    (%d): ", l);
		model->layers[l].kind->print(&model->layers[l], out);
		fprintf(out, "\n");
	}
	fprintf(out, "  )\n)\n");
}

int model_read(const struct model *model, float *parameters)
{
	return model->device->ops->get(model->device, parameters, model->parameters,
		model->parameter_count * sizeof(float));
}

void model_write(struct model *model, const float *parameters)
{
	model->device->ops->put(model->device, model->parameters, parameters,
		model->parameter_count * sizeof(float));
}

const float *model_forward(struct model *model, const float *images, int batch)
{
	const float *input = images;
	for (int l = 0; l < model->layer_count; l++) {
		const struct layer *layer = &model->layers[l];
		layer->kind->forward(model, layer, input, batch);
		input = layer->output;
	}
	return input;
}

int model_loss(
	const struct model *model, const int32_t *labels, int batch, double *loss, int *correct)
{
	const struct layer *top = &model->layers[model->layer_count - 1];
	struct device *device = model->device;
	double sums[2] = { 0 };
	device->ops->loss(device, batch, model->classes, top->output, labels, model->sums);
	int err = device->ops->get(device, sums, model->sums, sizeof(sums));
	*loss = sums[0];
	*correct = (int)sums[1];
	return err;
}

int model_backward(struct model *model, const float *images, const int32_t *labels, int batch,
	float scale, model_ready *ready, void *argument)
{
	const struct layer *top = &model->layers[model->layer_count - 1];
	model->device->ops->loss_grad(
		model->device, batch, model->classes, top->output, labels, scale, top->output_grad);
	for (int l = model->layer_count - 1; l >= 0; l--) {
		const struct layer *layer = &model->layers[l];
		const float *input = l ? model->layers[l - 1].output : images;
		float *input_grad = l ? model->layers[l - 1].output_grad : NULL;
		int err = layer->kind->backward(
			model, layer, input, input_grad, batch, ready, argument);
		if (err)
			return err;
	}
	return 0;
}
