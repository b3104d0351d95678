/*
 * Causal self-attention (Vaswani et al.: "Attention Is All You Need", 2017) of one sample after the
 * other. Heads are columns of the packed rows: products read them in place, one batch of heads.
 */
#include <math.h>

#include "train/model/layer.h"

#define ALIGNMENT (64 / sizeof(float))

/* The parts of a packed row, each [heads][width]. */
enum part { QUERY, KEY, VALUE, PARTS };

static void attention_print(const struct layer *layer, FILE *out)
{
	fprintf(out, "scaled_dot_product_attention(heads=%d, is_causal=True)",
		layer->as.attention.heads);
}

static size_t align(size_t count)
{
	return (count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Elements of [heads][rows][rows]. */
static size_t score_count(const struct layer *layer)
{
	size_t rows = layer->as.attention.rows;
	return layer->as.attention.heads * rows * rows;
}

/* The gradient of one sample's scores lies before the probabilities of all. */
static float *probabilities_of(const struct layer *layer, const struct pass *pass, int sample)
{
	return layer_saved(layer, pass) + align(score_count(layer)) + sample * score_count(layer);
}

/* A part of a sample's packed rows. */
static struct matrix packed(const struct layer *layer, const float *rows, int sample,
	enum part part, enum layout layout)
{
	int width = layer->as.attention.width, columns = layer->as.attention.heads * width;
	return (struct matrix){
		.data = (float *)rows + sample * layer->in + part * columns,
		.pitch = PARTS * columns,
		.layout = layout,
		.step = width,
	};
}

/* A sample's outputs, or their gradient. */
static struct matrix plain(
	const struct layer *layer, const float *rows, int sample, enum layout layout)
{
	int width = layer->as.attention.width;
	return (struct matrix){
		.data = (float *)rows + sample * layer->out,
		.pitch = layer->as.attention.heads * width,
		.layout = layout,
		.step = width,
	};
}

static struct matrix square(const struct layer *layer, const float *scores, enum layout layout)
{
	int rows = layer->as.attention.rows;
	return (struct matrix){
		.data = (float *)scores,
		.pitch = rows,
		.layout = layout,
		.step = (size_t)rows * rows,
	};
}

/* c = a b, for all heads. */
static void multiply(const struct layer *layer, int columns, int inner, struct matrix a,
	struct matrix b, struct matrix c)
{
	struct device *device = layer->model->device;
	const struct product product = {
		.batch = layer->as.attention.heads,
		.rows = layer->as.attention.rows,
		.columns = columns,
		.inner = inner,
		.a = a,
		.b = b,
		.c = c,
		.alpha = 1,
	};
	device->ops->product(device, &product);
}

static float scale_of(const struct layer *layer)
{
	return 1 / sqrtf((float)layer->as.attention.width);
}

static int attention_forward(const struct layer *layer, struct pass *pass, const void *in)
{
	struct device *device = layer->model->device;
	int rows = layer->as.attention.rows, width = layer->as.attention.width;
	float *out = layer_output(layer, pass);
	for (int n = 0; n < pass->batch; n++) {
		float *scores = probabilities_of(layer, pass, n);
		multiply(layer, rows, width, packed(layer, in, n, QUERY, AS_IS),
			packed(layer, in, n, KEY, TRANSPOSED), square(layer, scores, AS_IS));
		device->ops->causal_softmax(
			device, layer->as.attention.heads, rows, scale_of(layer), scores);
		multiply(layer, width, rows, square(layer, scores, AS_IS),
			packed(layer, in, n, VALUE, AS_IS), plain(layer, out, n, AS_IS));
	}
	return 0;
}

static int attention_backward(
	const struct layer *layer, struct pass *pass, const void *in, float *in_grad)
{
	struct device *device = layer->model->device;
	int rows = layer->as.attention.rows, width = layer->as.attention.width;
	const float *out_grad = layer_grad(layer, pass);
	float *grad = layer_saved(layer, pass); /* of the scores of one sample */
	for (int n = 0; n < pass->batch; n++) {
		const float *probabilities = probabilities_of(layer, pass, n);
		struct matrix from = plain(layer, out_grad, n, AS_IS);
		multiply(layer, width, rows, square(layer, probabilities, TRANSPOSED), from,
			packed(layer, in_grad, n, VALUE, AS_IS));
		multiply(layer, rows, width, from, packed(layer, in, n, VALUE, TRANSPOSED),
			square(layer, grad, AS_IS));
		device->ops->causal_softmax_grad(device, layer->as.attention.heads, rows,
			scale_of(layer), probabilities, grad);
		multiply(layer, width, rows, square(layer, grad, AS_IS),
			packed(layer, in, n, KEY, AS_IS), packed(layer, in_grad, n, QUERY, AS_IS));
		multiply(layer, width, rows, square(layer, grad, TRANSPOSED),
			packed(layer, in, n, QUERY, AS_IS), packed(layer, in_grad, n, KEY, AS_IS));
	}
	return 0;
}

static const struct layer_kind attention_kind = { attention_print, attention_forward,
	attention_backward };

void add_attention(struct layer *parent, int rows, int heads, int width)
{
	size_t out = (size_t)rows * heads * width, scores = (size_t)heads * rows * rows;
	struct layer *layer =
		layer_add(parent, &attention_kind, "", PARTS * out, out, scores, align(scores));
	if (!layer)
		return;
	layer->as.attention.rows = rows;
	layer->as.attention.heads = heads;
	layer->as.attention.width = width;
	layer->work = 2.0 * rows * out;
}
