/* Tokens to rows of numbers, and back to logits by the same table. */
#include <limits.h>

#include "train/model/layer.h"

/* ---- Embedding ---- */

static void embedding_print(const struct layer *layer, FILE *out)
{
	const struct embedding *shape = &layer->as.embedding.shape;
	fprintf(out, "(wte): Embedding(%d, %d), (wpe): Embedding(%d, %d)",
		layer->as.embedding.vocabulary, shape->width, shape->positions, shape->width);
}

static struct embedding embedding_of(const struct layer *layer, const struct pass *pass)
{
	struct embedding shape = layer->as.embedding.shape;
	shape.rows *= pass->batch;
	return shape;
}

static int embedding_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	struct device *device = layer->model->device;
	const struct embedding shape = embedding_of(layer, pass);
	device->ops->embed(device, &shape, in, layer_tensor_at(layer, 0)->value,
		layer_tensor_at(layer, 1)->value, layer_output(layer, pass));
	return 0;
}

static int embedding_backward(
	const struct layer *layer, struct pass *pass, const void *in, float *in_grad)
{
	struct device *device = layer->model->device;
	const struct embedding shape = embedding_of(layer, pass);
	const struct tensor *tokens = layer_tensor_at(layer, 0);
	(void)in_grad;
	if (!layer->as.embedding.tied)
		device->ops->clear(device, tokens->grad, tokens->count * sizeof(float));
	device->ops->embed_grad(device, &shape, in, layer_grad(layer, pass), tokens->grad,
		layer_tensor_at(layer, 1)->grad);
	int err = layer_ready(layer, pass, 0);
	return err ? err : layer_ready(layer, pass, 1);
}

static const struct layer_kind embedding_kind = { embedding_print, embedding_forward,
	embedding_backward };

/* Whether this model is no stage of a pipeline: the head is here, too. */
static bool is_whole(const struct layer *parent)
{
	const struct model_config *config = &parent->model->config;
	return !config->first_layer && config->last_layer == INT_MAX;
}

struct layer *add_embedding(
	struct layer *parent, int rows, int width, int vocabulary, int used, struct start start)
{
	struct layer *layer =
		layer_add(parent, &embedding_kind, "", rows, (size_t)rows * width, 0, 0);
	if (!layer)
		return NULL;
	bool is_part = used < vocabulary && is_whole(parent);
	layer->as.embedding.shape = (struct embedding){ .rows = rows,
		.positions = rows,
		.width = width,
		.vocabulary = is_part ? used : vocabulary };
	layer->as.embedding.vocabulary = vocabulary;
	if (is_part)
		layer_tensor_rows(
			layer, "wte.weight", start, 2, (int[]){ vocabulary, width }, 0, used);
	else
		layer_tensor(layer, "wte.weight", start, 2, (int[]){ vocabulary, width });
	layer_tensor(layer, "wpe.weight", start, 2, (int[]){ rows, width });
	/* Until the head is added here. */
	parent->model->shared = layer->tensor;
	return layer;
}

/* ---- Head ---- */

static void head_print(const struct layer *layer, FILE *out)
{
	fprintf(out, "(lm_head): Linear(in_features=%d, out_features=%d, bias=False)",
		layer->as.head.in, layer->as.head.out);
}

/* The outputs that share a weight: [rows][count] of all, from `first` on. */
struct outputs {
	int first, count;
	const struct tensor *weight; /* [count][in] */
};

static struct outputs tied_of(const struct layer *layer)
{
	return (struct outputs){ .count = layer->as.head.tied,
		.weight = &layer->model->parameters.list[layer->as.head.tied_tensor] };
}

static struct outputs own_of(const struct layer *layer)
{
	int first = layer->as.head.tied;
	return (struct outputs){ .first = first,
		.count = layer->as.head.out - first,
		.weight = layer->tensor < 0 ? NULL : layer_tensor_at(layer, 0) };
}

/* output = input weight^T */
static void compute(
	const struct layer *layer, struct pass *pass, const void *in, const struct outputs *outputs)
{
	struct device *device = layer->model->device;
	if (!outputs->count)
		return;
	device->ops->product(
		device, &(struct product){ .batch = 1,
				.rows = pass->batch * layer->as.head.rows,
				.columns = outputs->count,
				.inner = layer->as.head.in,
				.a = { .data = (float *)in, .pitch = layer->as.head.in },
				.b = { .data = outputs->weight->value,
					.layout = TRANSPOSED,
					.pitch = layer->as.head.in },
				.c = { .data = layer_output(layer, pass) + outputs->first,
					.pitch = layer->as.head.out },
				.alpha = 1 });
}

/* weight_grad = output_grad^T input */
static void weight_gradient(
	const struct layer *layer, struct pass *pass, const void *in, const struct outputs *outputs)
{
	struct device *device = layer->model->device;
	device->ops->product(
		device, &(struct product){ .batch = 1,
				.rows = outputs->count,
				.columns = layer->as.head.in,
				.inner = pass->batch * layer->as.head.rows,
				.a = { .data = layer_grad(layer, pass) + outputs->first,
					.layout = TRANSPOSED,
					.pitch = layer->as.head.out },
				.b = { .data = (float *)in, .pitch = layer->as.head.in },
				.c = { .data = outputs->weight->grad, .pitch = layer->as.head.in },
				.alpha = 1 });
}

/* in_grad = output_grad weight + beta in_grad */
static void in_gradient(const struct layer *layer, struct pass *pass, float *in_grad,
	const struct outputs *outputs, float beta)
{
	struct device *device = layer->model->device;
	device->ops->product(
		device, &(struct product){ .batch = 1,
				.rows = pass->batch * layer->as.head.rows,
				.columns = layer->as.head.in,
				.inner = outputs->count,
				.a = { .data = layer_grad(layer, pass) + outputs->first,
					.pitch = layer->as.head.out },
				.b = { .data = outputs->weight->value, .pitch = layer->as.head.in },
				.c = { .data = in_grad, .pitch = layer->as.head.in },
				.alpha = 1,
				.beta = beta });
}

static int head_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	const struct outputs tied = tied_of(layer), own = own_of(layer);
	compute(layer, pass, in, &tied);
	compute(layer, pass, in, &own);
	return 0;
}

static int head_backward(
	const struct layer *layer, struct pass *pass, const void *in, float *in_grad)
{
	const struct outputs tied = tied_of(layer), own = own_of(layer);
	int err = 0;
	if (own.count) {
		weight_gradient(layer, pass, in, &own);
		err = layer_ready(layer, pass, 0);
	}
	if (err)
		return err;
	/* The embedding adds its part. */
	if (tied.count)
		weight_gradient(layer, pass, in, &tied);
	if (in_grad && tied.count)
		in_gradient(layer, pass, in_grad, &tied, 0);
	if (in_grad && own.count)
		in_gradient(layer, pass, in_grad, &own, tied.count ? 1 : 0);
	return 0;
}

static const struct layer_kind head_kind = { head_print, head_forward, head_backward };

void add_head(struct layer *parent, int rows, int width, int vocabulary, struct start start,
	struct layer *embedding)
{
	struct layer *layer = layer_add(
		parent, &head_kind, "", (size_t)rows * width, (size_t)rows * vocabulary, 0, 0);
	if (!layer)
		return;
	layer->as.head.rows = rows;
	layer->as.head.in = width;
	layer->as.head.out = vocabulary;
	layer->work = (double)layer->in * vocabulary;
	if (embedding) {
		int used = embedding->as.embedding.shape.vocabulary;
		embedding->as.embedding.tied = true;
		layer->as.head.tied = used;
		layer->as.head.tied_tensor = embedding->tensor;
		parent->model->shared = -1;
		if (used < vocabulary)
			layer_tensor_rows(layer, "wte.weight", start, 2,
				(int[]){ vocabulary, width }, used, vocabulary - used);
		return;
	}
	/* Its name is the embedding's, so that its first values are, too. */
	layer_tensor(layer, "wte.weight", start, 2, (int[]){ vocabulary, width });
	parent->model->shared = layer->tensor;
}
