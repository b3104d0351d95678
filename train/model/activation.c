/* Layers without tensors: ReLU, GELU, and a view of the input. */
#include "train/model/layer.h"

static void relu_print(const struct layer *layer, FILE *out)
{
	(void)layer;
	fprintf(out, "ReLU()");
}

static int relu_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	struct device *device = layer->model->device;
	device->ops->relu(device, pass->batch * layer->out, in, layer_output(layer, pass));
	return 0;
}

static int relu_backward(
	const struct layer *layer, struct pass *pass, const void *in, float *in_grad)
{
	struct device *device = layer->model->device;
	(void)in;
	if (in_grad)
		device->ops->relu_grad(device, pass->batch * layer->out, layer_output(layer, pass),
			layer_grad(layer, pass), in_grad);
	return 0;
}

static const struct layer_kind relu = { relu_print, relu_forward, relu_backward };

void add_relu(struct layer *parent, const char *name, size_t count)
{
	layer_overwrite(layer_add(parent, &relu, name, count, count, 0, 0));
}

static void gelu_print(const struct layer *layer, FILE *out)
{
	(void)layer;
	fprintf(out, "GELU(approximate='tanh')");
}

static int gelu_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	struct device *device = layer->model->device;
	device->ops->gelu(device, pass->batch * layer->out, in, layer_output(layer, pass));
	return 0;
}

static int gelu_backward(
	const struct layer *layer, struct pass *pass, const void *in, float *in_grad)
{
	struct device *device = layer->model->device;
	if (in_grad)
		device->ops->gelu_grad(
			device, pass->batch * layer->out, in, layer_grad(layer, pass), in_grad);
	return 0;
}

static const struct layer_kind gelu = { gelu_print, gelu_forward, gelu_backward };

void add_gelu(struct layer *parent, const char *name, size_t count)
{
	layer_add(parent, &gelu, name, count, count, 0, 0);
}

static void flatten_print(const struct layer *layer, FILE *out)
{
	(void)layer;
	fprintf(out, "Flatten(start_dim=1, end_dim=-1)");
}

static const struct layer_kind flatten = { flatten_print, NULL, NULL };

void add_flatten(struct layer *parent, const char *name, size_t count)
{
	layer_add(parent, &flatten, name, count, 0, 0, 0);
}
