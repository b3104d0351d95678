/* Convolution of images. */
#include <math.h>

#include "train/model/layer.h"

static void conv_print(const struct layer *layer, FILE *out)
{
	const struct conv *conv = &layer->as.conv;
	fprintf(out, "Conv2d(%d, %d, kernel_size=(%d, %d), stride=(1, 1)", conv->in_channels,
		conv->out_channels, conv->kernel, conv->kernel);
	if (conv->padding)
		fprintf(out, ", padding=(%d, %d)", conv->padding, conv->padding);
	fprintf(out, ")");
}

static struct conv shape_in(const struct layer *layer, const struct pass *pass)
{
	struct conv conv = layer->as.conv;
	conv.batch = pass->batch;
	return conv;
}

static int conv_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	struct device *device = layer->model->device;
	const struct conv conv = shape_in(layer, pass);
	device->ops->conv(device, &conv, in, layer_tensor_at(layer, 0)->value,
		layer_tensor_at(layer, 1)->value, layer_output(layer, pass));
	return 0;
}

static int conv_backward(
	const struct layer *layer, struct pass *pass, const void *in, float *in_grad)
{
	struct device *device = layer->model->device;
	const struct conv conv = shape_in(layer, pass);
	const struct tensor *weight = layer_tensor_at(layer, 0), *bias = layer_tensor_at(layer, 1);
	const float *out_grad = layer_grad(layer, pass);
	device->ops->conv_weight_grad(device, &conv, in, out_grad, weight->grad, bias->grad);
	int err = layer_ready(layer, pass, 0);
	if (!err)
		err = layer_ready(layer, pass, 1);
	if (!err && in_grad)
		device->ops->conv_in_grad(device, &conv, weight->value, out_grad, in_grad);
	return err;
}

static const struct layer_kind conv_kind = { conv_print, conv_forward, conv_backward };

void add_conv(struct layer *parent, const char *name, const struct conv *conv)
{
	int inputs = conv->in_channels * conv->kernel * conv->kernel, out = conv->out_channels;
	struct start start = { START_UNIFORM, 1.0f / sqrtf((float)inputs) };
	int out_rows = conv->rows + 2 * conv->padding - conv->kernel + 1;
	int out_columns = conv->columns + 2 * conv->padding - conv->kernel + 1;
	struct layer *layer = layer_add(parent, &conv_kind, name,
		(size_t)conv->in_channels * conv->rows * conv->columns,
		(size_t)out * out_rows * out_columns, 0, 0);
	if (!layer)
		return;
	layer->as.conv = *conv;
	layer_tensor(layer, "weight", start, 4,
		(int[]){ out, conv->in_channels, conv->kernel, conv->kernel });
	layer_tensor(layer, "bias", start, 1, &out);
}
