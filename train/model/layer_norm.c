/* LayerNorm over the columns of each row. */
#include "train/model/layer.h"

#define EPSILON 1e-5f /* PyTorch's */

static void layer_norm_print(const struct layer *layer, FILE *out)
{
	fprintf(out, "LayerNorm((%d,), eps=1e-05, elementwise_affine=True)",
		layer->as.layer_norm.columns);
}

static struct layer_norm norm_of(const struct layer *layer, const struct pass *pass)
{
	struct layer_norm norm = layer->as.layer_norm;
	norm.rows *= pass->batch;
	return norm;
}

static int layer_norm_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	struct device *device = layer->model->device;
	const struct layer_norm norm = norm_of(layer, pass);
	device->ops->layer_norm(device, &norm, in, layer_tensor_at(layer, 0)->value,
		layer_tensor_at(layer, 1)->value, layer_saved(layer, pass),
		layer_output(layer, pass));
	return 0;
}

static int layer_norm_backward(
	const struct layer *layer, struct pass *pass, const void *in, float *in_grad)
{
	struct device *device = layer->model->device;
	const struct layer_norm norm = norm_of(layer, pass);
	const struct tensor *weight = layer_tensor_at(layer, 0), *bias = layer_tensor_at(layer, 1);
	device->ops->layer_norm_grad(device, &norm, in, layer_saved(layer, pass), weight->value,
		layer_grad(layer, pass), in_grad, weight->grad, bias->grad);
	int err = layer_ready(layer, pass, 0);
	return err ? err : layer_ready(layer, pass, 1);
}

static const struct layer_kind layer_norm_kind = { layer_norm_print, layer_norm_forward,
	layer_norm_backward };

void add_layer_norm(struct layer *parent, const char *name, int rows, int width)
{
	size_t count = (size_t)rows * width;
	struct layer *layer =
		layer_add(parent, &layer_norm_kind, name, count, count, 2 * (size_t)rows, 0);
	if (!layer)
		return;
	layer->as.layer_norm =
		(struct layer_norm){ .rows = rows, .columns = width, .epsilon = EPSILON };
	layer_tensor(layer, "weight", (struct start){ START_CONSTANT, 1 }, 1, &width);
	layer_tensor(layer, "bias", (struct start){ START_CONSTANT, 0 }, 1, &width);
}
