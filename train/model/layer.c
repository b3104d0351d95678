#include "train/model/layer.h"

#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"

#define ALIGNMENT (64 / sizeof(float))

static size_t align(size_t count)
{
	return (count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int sequence_forward(const struct layer *layer, struct pass *pass, const void *in);
static int sequence_backward(
	const struct layer *layer, struct pass *pass, const void *in, float *in_grad);

static const struct layer_kind sequence = { NULL, sequence_forward, sequence_backward };

/* ---- Building ---- */

static int append(struct layer *parent, struct layer *layer)
{
	size_t size = (parent->layer_count + 1) * sizeof(*parent->layers);
	struct layer **layers = realloc(parent->layers, size);
	if (!layers)
		return fail("out of memory");
	parent->layers = layers;
	parent->layers[parent->layer_count++] = layer;
	return 0;
}

bool layer_is_cut(const struct layer *layer)
{
	while (layer && layer->kind == &sequence)
		layer = layer->parent;
	return !layer;
}

/* Whether the next layer of this parent belongs to this stage. */
static bool is_here(const struct layer *parent)
{
	struct model *model = parent->model;
	if (!layer_is_cut(parent))
		return true;
	int number = model->layer_count++;
	return number >= model->config.first_layer && number < model->config.last_layer;
}

struct layer *layer_add(struct layer *parent, const struct layer_kind *kind, const char *name,
	size_t in, size_t out, size_t saved, size_t fixed)
{
	if (!parent || parent->model->error || (kind != &sequence && !is_here(parent)))
		return NULL;
	struct model *model = parent->model;
	struct layer *layer = calloc(1, sizeof(*layer));
	if (!layer || append(parent, layer)) {
		free(layer);
		model->error = fail("out of memory for layer %s", name);
		return NULL;
	}
	*layer = (struct layer){ .kind = kind,
		.model = model,
		.parent = parent,
		.in = in,
		.out = out,
		.tensor = -1,
		.buffer = -1 };
	snprintf(layer->name, sizeof(layer->name), "%s", name);
	layer->output = model->activation_count;
	model->activation_count += align(out * model->config.batch_max);
	layer->grad = model->grad_count;
	model->grad_count += align(out * model->config.batch_max);
	layer->saved = model->activation_count;
	model->activation_count += align(fixed) + align(saved * model->config.batch_max);
	return layer;
}

/* Writes "layer1.0.weight": the names from the root down. Returns its length. */
static int write_path(char *path, size_t size, const struct layer *layer)
{
	if (!layer->parent)
		return 0;
	int length = write_path(path, size, layer->parent);
	if (length < 0 || (size_t)length >= size)
		return -1;
	if (!*layer->name)
		return length;
	return length + snprintf(path + length, size - length, "%s.", layer->name);
}

static void add_tensor(struct layer *layer, const char *name, struct tensor *tensor,
	struct tensors *tensors, int *first)
{
	int length = write_path(tensor->name, sizeof(tensor->name), layer), number;
	if (length < 0 || length + strlen(name) >= sizeof(tensor->name)) {
		layer->model->error = fail("the name of tensor %s is too long", name);
		return;
	}
	strcpy(tensor->name + length, name);
	int err = tensors_add(tensors, tensor, &number);
	if (err)
		layer->model->error = err;
	else if (*first < 0)
		*first = number;
}

void layer_tensor_part(struct layer *layer, const char *name, struct start start, int dims,
	const int *shape, int split, int groups)
{
	struct tensor tensor = { .dims = dims, .split = split, .start = start };
	if (!layer || layer->model->error)
		return;
	memcpy(tensor.shape, shape, dims * sizeof(*shape));
	if (split >= 0) {
		const struct train_world *group = layer->model->config.tensor_group;
		tensor.whole = shape[split];
		tensor.groups = groups;
		tensor.shape[split] = tensor.whole / group->size;
		tensor.first = tensor.shape[split] / groups * group->rank;
	}
	add_tensor(layer, name, &tensor, &layer->model->parameters, &layer->tensor);
}

void layer_tensor_rows(struct layer *layer, const char *name, struct start start, int dims,
	const int *shape, int first, int count)
{
	struct tensor tensor = { .dims = dims,
		.split = 0,
		.whole = shape[0],
		.groups = 1,
		.first = first,
		.start = start };
	if (!layer || layer->model->error)
		return;
	memcpy(tensor.shape, shape, dims * sizeof(*shape));
	tensor.shape[0] = count;
	add_tensor(layer, name, &tensor, &layer->model->parameters, &layer->tensor);
}

void layer_tensor(
	struct layer *layer, const char *name, struct start start, int dims, const int *shape)
{
	layer_tensor_part(layer, name, start, dims, shape, -1, 1);
}

void layer_buffer(struct layer *layer, const char *name, float number, int dims, const int *shape)
{
	struct tensor tensor = { .dims = dims, .split = -1, .start = { .number = number } };
	if (!layer || layer->model->error)
		return;
	memcpy(tensor.shape, shape, dims * sizeof(*shape));
	add_tensor(layer, name, &tensor, &layer->model->buffers, &layer->buffer);
}

void layer_destroy(struct layer *layer)
{
	if (!layer)
		return;
	for (int l = 0; l < layer->layer_count; l++)
		layer_destroy(layer->layers[l]);
	free(layer->layers);
	free(layer);
}

void layer_prune(struct layer *layer)
{
	int kept = 0;
	for (int l = 0; l < layer->layer_count; l++) {
		struct layer *inner = layer->layers[l];
		layer_prune(inner);
		if (inner->kind == &sequence && !inner->layer_count)
			layer_destroy(inner);
		else
			layer->layers[kept++] = inner;
	}
	layer->layer_count = kept;
}

/* ---- In a pass ---- */

const struct layer *layer_first(const struct layer *layer)
{
	while (layer->layer_count)
		layer = layer->layers[0];
	return layer;
}

/* The layer whose output is this one's. */
const struct layer *layer_last(const struct layer *layer)
{
	while (layer->layer_count)
		layer = layer->layers[layer->layer_count - 1];
	return layer;
}

float *layer_output(const struct layer *layer, const struct pass *pass)
{
	return pass->activations + layer_last(layer)->output;
}

float *layer_grad(const struct layer *layer, const struct pass *pass)
{
	(void)pass;
	return layer->model->grads + layer_last(layer)->grad;
}

float *layer_saved(const struct layer *layer, const struct pass *pass)
{
	return pass->activations + layer->saved;
}

struct tensor *layer_tensor_at(const struct layer *layer, int number)
{
	return &layer->model->parameters.list[layer->tensor + number];
}

struct tensor *layer_buffer_at(const struct layer *layer, int number)
{
	return &layer->model->buffers.list[layer->buffer + number];
}

int layer_ready(const struct layer *layer, struct pass *pass, int number)
{
	return pass->ready(pass->argument, layer->tensor + number);
}

/* ---- Layers of layers ---- */

/* The layer whose output is the input of number l; NULL: the sequence's own input is. A layer
   without forward is a view of its input. */
static const struct layer *before(const struct layer *layer, int l)
{
	while (l > 0)
		if (layer->layers[--l]->kind->forward)
			return layer->layers[l];
	return NULL;
}

void layer_overwrite(struct layer *layer)
{
	const struct layer *from =
		layer ? before(layer->parent, layer->parent->layer_count - 1) : NULL;
	if (!from)
		return;
	layer->model->activation_count = layer->output;
	layer->model->grad_count = layer->grad;
	layer->output = layer_last(from)->output;
	layer->grad = layer_last(from)->grad;
}

static int sequence_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	int err = 0;
	for (int l = 0; !err && l < layer->layer_count; l++) {
		const struct layer *inner = layer->layers[l];
		if (!inner->kind->forward)
			continue;
		err = inner->kind->forward(inner, pass, in);
		in = layer_output(inner, pass);
	}
	return err;
}

static int sequence_backward(
	const struct layer *layer, struct pass *pass, const void *in, float *in_grad)
{
	int err = 0;
	for (int l = layer->layer_count - 1; !err && l >= 0; l--) {
		const struct layer *inner = layer->layers[l], *from = before(layer, l);
		if (inner->kind->backward)
			err = inner->kind->backward(inner, pass,
				from ? layer_output(from, pass) : in,
				from ? layer_grad(from, pass) : in_grad);
	}
	return err;
}

static int residual_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	struct device *device = layer->model->device;
	int err = sequence_forward(layer, pass, in);
	float *out = layer_output(layer, pass);
	device->ops->add(device, pass->batch * layer->out, in, out, out);
	return err;
}

static int residual_backward(
	const struct layer *layer, struct pass *pass, const void *in, float *in_grad)
{
	struct device *device = layer->model->device;
	int err = sequence_backward(layer, pass, in, in_grad);
	if (in_grad)
		device->ops->add(
			device, pass->batch * layer->in, layer_grad(layer, pass), in_grad, in_grad);
	return err;
}

static const struct layer_kind residual = { NULL, residual_forward, residual_backward };

struct layer *layer_root(struct model *model, const char *title)
{
	struct layer *root = calloc(1, sizeof(*root));
	if (root)
		*root = (struct layer){ .kind = &sequence, .model = model, .title = title };
	return root;
}

struct layer *add_sequence(struct layer *parent, const char *name, const char *title)
{
	struct layer *layer = layer_add(parent, &sequence, name, 0, 0, 0, 0);
	if (layer)
		layer->title = title;
	return layer;
}

struct layer *add_residual(struct layer *parent, const char *name, const char *title, size_t count)
{
	struct layer *layer = layer_add(parent, &residual, name, 0, 0, 0, 0);
	if (layer) {
		layer->title = title;
		layer->in = layer->out = count;
	}
	return layer;
}
