/* Tokens to rows of numbers, and back to logits by the same table. */
#include <string.h>

#include "train/model/layer.h"

/* ---- Embedding ---- */

static void embedding_print(const struct layer *layer, FILE *out)
{
	const struct embedding *shape = &layer->as.embedding.shape;
	fprintf(out, "(wte): Embedding(%d, %d), (wpe): Embedding(%d, %d)", shape->vocabulary,
		shape->width, shape->positions, shape->width);
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

struct layer *add_embedding(
	struct layer *parent, int rows, int width, int vocabulary, struct start start)
{
	struct layer *layer =
		layer_add(parent, &embedding_kind, "", rows, (size_t)rows * width, 0, 0);
	if (!layer)
		return NULL;
	layer->as.embedding.shape = (struct embedding){
		.rows = rows, .positions = rows, .width = width, .vocabulary = vocabulary
	};
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

static int head_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	struct device *device = layer->model->device;
	device_multiply(device, pass->batch * layer->as.head.rows, layer->as.head.out,
		layer->as.head.in, in, AS_IS, layer_tensor_at(layer, 0)->value, TRANSPOSED, 0,
		layer_output(layer, pass));
	return 0;
}

static int head_backward(
	const struct layer *layer, struct pass *pass, const void *input, float *in_grad)
{
	struct device *device = layer->model->device;
	int rows = pass->batch * layer->as.head.rows;
	int in = layer->as.head.in, out = layer->as.head.out, err = 0;
	const struct tensor *weight = layer_tensor_at(layer, 0); /* [out][in] */
	const float *out_grad = layer_grad(layer, pass);
	device_multiply(device, out, in, rows, out_grad, TRANSPOSED, input, AS_IS, 0, weight->grad);
	/* The embedding adds its part. */
	if (!layer->as.head.tied)
		err = layer_ready(layer, pass, 0);
	if (!err && in_grad)
		device_multiply(
			device, rows, in, out, out_grad, AS_IS, weight->value, AS_IS, 0, in_grad);
	return err;
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
	layer->as.head.tied = embedding != NULL;
	layer->work = (double)layer->in * vocabulary;
	if (embedding) {
		layer->tensor = embedding->tensor;
		embedding->as.embedding.tied = true;
		parent->model->shared = -1;
		return;
	}
	/* Its name is the embedding's, so that its first values are, too. */
	layer_tensor(layer, "wte.weight", start, 2, (int[]){ vocabulary, width });
	parent->model->shared = layer->tensor;
}
