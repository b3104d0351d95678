/* Batch norm with ReLU. Where ranks share statistics (model->norm_sum), they add up the sums. */
#include "train/model/layer.h"

#define EPSILON 1e-5f
#define MOMENTUM 0.1f

enum { WEIGHT, BIAS }; /* tensors */
enum { MEAN, VARIANCE }; /* buffers */

static void norm_print(const struct layer *layer, FILE *out)
{
	fprintf(out,
		"%sBatchNorm2d(%d, eps=1e-05, momentum=0.1, affine=True, "
		"track_running_stats=True)",
		layer->model->norm_sum ? "Sync" : "", layer->as.norm.shape.channels);
}

/* Values for backward, [2 * channels] each: sums, then mean and inverse deviation. */
static double *sums_of(const struct layer *layer, const struct pass *pass)
{
	return (double *)layer_saved(layer, pass);
}

static float *moments_of(const struct layer *layer, const struct pass *pass)
{
	return (float *)(sums_of(layer, pass) + 2 * (size_t)layer->as.norm.shape.channels);
}

static struct norm shape_in(const struct layer *layer, const struct pass *pass)
{
	struct norm norm = layer->as.norm;
	norm.shape.batch = pass->batch;
	return norm;
}

/* Elements of a channel that the statistics cover. */
static double count_of(const struct layer *layer, const struct pass *pass)
{
	const struct planes *shape = &layer->as.norm.shape;
	return (double)pass->norm_batch * shape->rows * shape->columns;
}

static int add_up(const struct layer *layer, const struct pass *pass)
{
	const struct model *model = layer->model;
	return model->norm_sum ? model->norm_sum(model->norm_argument, sums_of(layer, pass),
					 2 * (size_t)layer->as.norm.shape.channels)
			       : 0;
}

static int norm_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	struct device *device = layer->model->device;
	const struct norm norm = shape_in(layer, pass);
	float *mean = layer_buffer_at(layer, MEAN)->value;
	float *variance = layer_buffer_at(layer, VARIANCE)->value;
	float *saved = moments_of(layer, pass);
	double count = count_of(layer, pass);
	int err = 0;
	if (pass->training) {
		device->ops->norm_sums(device, &norm, in, sums_of(layer, pass));
		err = add_up(layer, pass);
		/* An empty share of a batch has no mean. */
		if (!err && count > 0)
			device->ops->norm_moments(device, &norm, sums_of(layer, pass), count,
				MOMENTUM, saved, mean, variance);
	} else {
		device->ops->norm_fixed(device, &norm, mean, variance, saved);
	}
	if (!err)
		device->ops->norm(device, &norm, in, saved, layer_tensor_at(layer, WEIGHT)->value,
			layer_tensor_at(layer, BIAS)->value, layer_output(layer, pass));
	return err;
}

static int norm_backward(
	const struct layer *layer, struct pass *pass, const void *in, float *in_grad)
{
	struct device *device = layer->model->device;
	const struct norm norm = shape_in(layer, pass);
	const struct tensor *weight = layer_tensor_at(layer, WEIGHT);
	const float *out = layer_output(layer, pass), *out_grad = layer_grad(layer, pass);
	const float *saved = moments_of(layer, pass);
	double *sums = sums_of(layer, pass), count = count_of(layer, pass);
	device->ops->norm_grad_sums(device, &norm, in, out, out_grad, saved, sums);
	device->ops->norm_weight_grad(
		device, &norm, sums, weight->grad, layer_tensor_at(layer, BIAS)->grad);
	int err = layer_ready(layer, pass, WEIGHT);
	if (!err)
		err = layer_ready(layer, pass, BIAS);
	if (!err)
		err = add_up(layer, pass);
	if (!err && in_grad && count > 0)
		device->ops->norm_in_grad(device, &norm, in, out, out_grad, saved, weight->value,
			sums, count, in_grad);
	return err;
}

static const struct layer_kind norm_kind = { norm_print, norm_forward, norm_backward };

/* ReLU is part of the norm before it. */
static void relu_print(const struct layer *layer, FILE *out)
{
	(void)layer;
	fprintf(out, "ReLU()");
}

static const struct layer_kind relu_kind = { relu_print, NULL, NULL };

void add_batch_norm_relu(struct layer *parent, const char *name, const char *relu_name,
	int channels, int rows, int columns)
{
	size_t count = (size_t)channels * rows * columns;
	size_t saved = 2 * channels * (sizeof(double) / sizeof(float) + 1);
	const struct start one = { START_CONSTANT, 1 }, zero = { START_CONSTANT, 0 };
	struct layer *layer = layer_add(parent, &norm_kind, name, count, count, 0, saved);
	if (layer) {
		layer->as.norm = (struct norm){ .epsilon = EPSILON, .relu = true };
		layer->as.norm.shape =
			(struct planes){ .channels = channels, .rows = rows, .columns = columns };
		layer_tensor(layer, "weight", one, 1, &channels);
		layer_tensor(layer, "bias", zero, 1, &channels);
		layer_buffer(layer, "running_mean", 0, 1, &channels);
		layer_buffer(layer, "running_var", 1, 1, &channels);
	}
	layer_add(parent, &relu_kind, relu_name, count, 0, 0, 0);
}
