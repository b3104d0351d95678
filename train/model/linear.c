/* Linear: output = input weight^T + bias, whole or shared by the ranks of the tensor group. */
#include <math.h>

#include "train/base/fail.h"
#include "train/model/layer.h"

static void linear_print(const struct layer *layer, FILE *out)
{
	static const char *const shared[] = { "", ", parallel=columns", ", parallel=rows" };
	const struct linear *linear = &layer->as.linear;
	fprintf(out, "Linear(in_features=%d, out_features=%d, bias=True%s)", linear->in,
		linear->out, shared[linear->sharing]);
}

/* Sums values over the tensor group. */
static int sum_over_group(const struct layer *layer, float *values, size_t count)
{
	const struct train_world *group = layer->model->config.tensor_group;
	struct device *device = layer->model->device;
	if (!group->comm || !count)
		return 0;
	int err = device->ops->wait(device);
	if (err)
		return err;
	err = rondo_all_reduce(group->comm, values, values, count, RONDO_F32, RONDO_SUM, NULL);
	return err ? fail_comm(err, "sum over the ranks that share a layer") : 0;
}

static int linear_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	struct device *device = layer->model->device;
	const struct linear *linear = &layer->as.linear;
	int rows = pass->batch * linear->rows;
	const float *weight = layer_tensor_at(layer, 0)->value; /* [out][in] */
	const float *bias = layer_tensor_at(layer, 1)->value; /* [out] */
	float *out = layer_output(layer, pass);
	/* A sum has the bias of its first rank alone. */
	bool adds_bias = linear->sharing != ROWS || !layer->model->config.tensor_group->rank;
	if (adds_bias)
		device->ops->spread(device, rows, linear->out, bias, out);
	device_multiply(device, rows, linear->out, linear->in, in, AS_IS, weight, TRANSPOSED,
		adds_bias, out);
	if (linear->sharing != ROWS)
		return 0;
	return sum_over_group(layer, out, (size_t)rows * linear->out);
}

static int multiply_in_grad(
	const struct layer *layer, int rows, float *in_grad, const float *out_grad)
{
	const struct linear *linear = &layer->as.linear;
	device_multiply(layer->model->device, rows, linear->in, linear->out, out_grad, AS_IS,
		layer_tensor_at(layer, 0)->value, AS_IS, 0, in_grad);
	if (linear->sharing != COLUMNS)
		return 0;
	return sum_over_group(layer, in_grad, (size_t)rows * linear->in);
}

/* The weight's gradient, or the step by it: a product that is added to the weight. */
static void multiply_weight(
	const struct layer *layer, int rows, const float *in, const float *out_grad)
{
	const struct linear *linear = &layer->as.linear;
	struct tensor *weight = layer_tensor_at(layer, 0);
	float rate = layer->model->step_rate;
	weight->stepped = rate > 0;
	const struct product product = {
		.batch = 1,
		.rows = linear->out,
		.columns = linear->in,
		.inner = rows,
		.a = { .data = (float *)out_grad, .pitch = linear->out, .layout = TRANSPOSED },
		.b = { .data = (float *)in, .pitch = linear->in },
		.c = { .data = weight->stepped ? weight->value : weight->grad,
			.pitch = linear->in },
		.alpha = weight->stepped ? -rate : 1,
		.beta = weight->stepped,
	};
	layer->model->device->ops->product(layer->model->device, &product);
}

static int linear_backward(
	const struct layer *layer, struct pass *pass, const void *input, float *in_grad)
{
	struct device *device = layer->model->device;
	const struct linear *linear = &layer->as.linear;
	int rows = pass->batch * linear->rows, err = 0;
	const float *out_grad = layer_grad(layer, pass);
	/* It needs the weight as it was before a step. Else other ranks wait for the weight's
	   gradient. */
	bool first = layer->model->step_rate > 0;
	if (in_grad && first)
		err = multiply_in_grad(layer, rows, in_grad, out_grad);
	if (err)
		return err;
	multiply_weight(layer, rows, input, out_grad);
	err = layer_ready(layer, pass, 0);
	if (err)
		return err;
	device->ops->column_sums(
		device, rows, linear->out, out_grad, layer_tensor_at(layer, 1)->grad);
	err = layer_ready(layer, pass, 1);
	if (err || !in_grad || first)
		return err;
	return multiply_in_grad(layer, rows, in_grad, out_grad);
}

static const struct layer_kind linear_kind = { linear_print, linear_forward, linear_backward };

void add_linear_with(struct layer *parent, const char *name, const struct linear *whole)
{
	struct linear part = *whole;
	int groups = whole->groups ? whole->groups : 1;
	int ranks = parent ? parent->model->config.tensor_group->size : 1;
	int *split = whole->sharing == COLUMNS ? &part.out : &part.in;
	if (ranks == 1)
		part.sharing = WHOLE;
	if (part.sharing != WHOLE) {
		if (*split % (groups * ranks) && !parent->model->error)
			parent->model->error = fail("--tensor %d: does not divide the %d %s of a "
						    "linear layer (%s)",
				ranks, *split / groups,
				whole->sharing == COLUMNS ? "outputs" : "inputs", name);
		*split /= ranks;
	}
	struct layer *layer = layer_add(parent, &linear_kind, name, (size_t)part.rows * part.in,
		(size_t)part.rows * part.out, 0, 0);
	if (!layer)
		return;
	layer->as.linear = part;
	layer->work = (double)layer->in * part.out;
	const int shape[] = { whole->out, whole->in };
	if (part.sharing == WHOLE)
		layer_tensor(layer, "weight", whole->weight, 2, shape);
	else
		layer_tensor_part(
			layer, "weight", whole->weight, 2, shape, part.sharing == ROWS, groups);
	if (part.sharing == COLUMNS)
		layer_tensor_part(layer, "bias", whole->bias, 1, shape, 0, groups);
	else
		layer_tensor(layer, "bias", whole->bias, 1, shape);
}

void add_shared_linear(
	struct layer *parent, const char *name, int rows, int in, int out, enum sharing sharing)
{
	struct start start = { START_UNIFORM, 1.0f / sqrtf((float)in) };
	add_linear_with(parent, name,
		&(struct linear){ .rows = rows,
			.in = in,
			.out = out,
			.weight = start,
			.bias = start,
			.sharing = sharing });
}

void add_linear(struct layer *parent, const char *name, int rows, int in, int out)
{
	add_shared_linear(parent, name, rows, in, out, WHOLE);
}
