/* Linear: output = input weight^T + bias. */
#include <math.h>

#include "train/model/layer.h"

static void linear_print(const struct layer *layer, FILE *out)
{
	fprintf(out, "Linear(in_features=%d, out_features=%d, bias=True)", layer->as.linear.in,
		layer->as.linear.out);
}

static int linear_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	struct device *device = layer->model->device;
	int rows = pass->batch * layer->as.linear.rows;
	const float *weight = layer_tensor_at(layer, 0)->value; /* [out][in] */
	const float *bias = layer_tensor_at(layer, 1)->value; /* [out] */
	float *out = layer_output(layer, pass);
	device->ops->spread(device, rows, layer->as.linear.out, bias, out);
	device_multiply(device, rows, layer->as.linear.out, layer->as.linear.in, in, AS_IS, weight,
		TRANSPOSED, 1, out);
	return 0;
}

static int linear_backward(
	const struct layer *layer, struct pass *pass, const void *input, float *in_grad)
{
	struct device *device = layer->model->device;
	int rows = pass->batch * layer->as.linear.rows;
	int in = layer->as.linear.in, out = layer->as.linear.out;
	const struct tensor *weight = layer_tensor_at(layer, 0); /* [out][in] */
	const struct tensor *bias = layer_tensor_at(layer, 1); /* [out] */
	const float *out_grad = layer_grad(layer, pass);
	device_multiply(device, out, in, rows, out_grad, TRANSPOSED, input, AS_IS, 0, weight->grad);
	int err = layer_ready(layer, pass, 0);
	if (err)
		return err;
	device->ops->column_sums(device, rows, out, out_grad, bias->grad);
	err = layer_ready(layer, pass, 1);
	if (!err && in_grad)
		device_multiply(
			device, rows, in, out, out_grad, AS_IS, weight->value, AS_IS, 0, in_grad);
	return err;
}

static const struct layer_kind linear = { linear_print, linear_forward, linear_backward };

void add_linear(struct layer *parent, const char *name, int rows, int in, int out)
{
	struct start start = { START_UNIFORM, 1.0f / sqrtf((float)in) };
	struct layer *layer =
		layer_add(parent, &linear, name, (size_t)rows * in, (size_t)rows * out, 0, 0);
	if (!layer)
		return;
	layer->as.linear.rows = rows;
	layer->as.linear.in = in;
	layer->as.linear.out = out;
	layer_tensor(layer, "weight", start, 2, (int[]){ out, in });
	layer_tensor(layer, "bias", start, 1, &out);
}
