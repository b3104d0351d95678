/* Max-pooling of images, 2 x 2. */
#include "train/model/layer.h"

static void pool_print(const struct layer *layer, FILE *out)
{
	(void)layer;
	fprintf(out, "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)");
}

static struct planes shape_in(const struct layer *layer, const struct pass *pass)
{
	struct planes planes = layer->as.planes;
	planes.batch = pass->batch;
	return planes;
}

/* A byte for each output, kept for backward. */
static uint8_t *index_of(const struct layer *layer, const struct pass *pass)
{
	return (uint8_t *)layer_saved(layer, pass);
}

static int pool_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	struct device *device = layer->model->device;
	const struct planes planes = shape_in(layer, pass);
	device->ops->max_pool(
		device, &planes, in, layer_output(layer, pass), index_of(layer, pass));
	return 0;
}

static int pool_backward(
	const struct layer *layer, struct pass *pass, const void *in, float *in_grad)
{
	struct device *device = layer->model->device;
	const struct planes planes = shape_in(layer, pass);
	(void)in;
	if (in_grad)
		device->ops->max_pool_grad(
			device, &planes, index_of(layer, pass), layer_grad(layer, pass), in_grad);
	return 0;
}

static const struct layer_kind pool_kind = { pool_print, pool_forward, pool_backward };

void add_max_pool(struct layer *parent, const char *name, int channels, int rows, int columns)
{
	size_t in = (size_t)channels * rows * columns;
	size_t out = (size_t)channels * (rows / 2) * (columns / 2);
	size_t saved = (out + sizeof(float) - 1) / sizeof(float);
	struct layer *layer = layer_add(parent, &pool_kind, name, in, out, saved, 0);
	if (layer)
		layer->as.planes =
			(struct planes){ .channels = channels, .rows = rows, .columns = columns };
}
