#include "model.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "rng.h"

/* What a kind of layer does. A layer without tensors never calls ready. */
struct layer_kind {
	void (*print)(const struct layer *layer, FILE *out);
	void (*forward)(const struct model *model, const struct layer *layer,
		const float *input /* [batch][in] */, int batch);
	/* From layer->output_grad; input_grad is NULL where nobody wants it. */
	int (*backward)(const struct model *model, const struct layer *layer,
		const float *input /* [batch][in] */, float *input_grad /* [batch][in] */,
		int batch, model_ready *ready, void *argument);
};

/* ---- Linear: output = input weight^T + bias ---- */

static void linear_print(const struct layer *layer, FILE *out)
{
	fprintf(out, "Linear(in_features=%d, out_features=%d, bias=True)", layer->in, layer->out);
}

static void linear_forward(
	const struct model *model, const struct layer *layer, const float *input, int batch)
{
	int in = layer->in, out = layer->out;
	const float *weight = model->tensors[layer->weight].value; /* [out][in] */
	const float *bias = model->tensors[layer->bias].value; /* [out] */
	for (int row = 0; row < batch; row++)
		memcpy(layer->output + (size_t)row * out, bias, out * sizeof(float));
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, batch, out, in, 1.0f, input, in,
		weight, in, 1.0f, layer->output, out);
}

static int linear_backward(const struct model *model, const struct layer *layer, const float *input,
	float *input_grad, int batch, model_ready *ready, void *argument)
{
	int in = layer->in, out = layer->out;
	const float *weight = model->tensors[layer->weight].value; /* [out][in] */
	float *weight_grad = model->tensors[layer->weight].grad; /* [out][in] */
	float *bias_grad = model->tensors[layer->bias].grad; /* [out] */
	/* The parameters' gradients first: they travel while the input's is computed. */
	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, batch, 1.0f,
		layer->output_grad, out, input, in, 0.0f, weight_grad, in);
	int err = ready(argument, layer->weight);
	if (err)
		return err;
	memset(bias_grad, 0, out * sizeof(float));
	for (int row = 0; row < batch; row++)
		for (int o = 0; o < out; o++)
			bias_grad[o] += layer->output_grad[(size_t)row * out + o];
	err = ready(argument, layer->bias);
	if (err)
		return err;
	if (input_grad)
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, batch, in, out, 1.0f,
			layer->output_grad, out, weight, in, 0.0f, input_grad, in);
	return 0;
}

static const struct layer_kind linear = { linear_print, linear_forward, linear_backward };

/* ---- ReLU: output = max(input, 0) ---- */

static void relu_print(const struct layer *layer, FILE *out)
{
	(void)layer;
	fprintf(out, "ReLU()");
}

static void relu_forward(
	const struct model *model, const struct layer *layer, const float *input, int batch)
{
	(void)model;
	for (size_t i = 0; i < (size_t)batch * layer->out; i++)
		layer->output[i] = input[i] > 0 ? input[i] : 0;
}

static int relu_backward(const struct model *model, const struct layer *layer, const float *input,
	float *input_grad, int batch, model_ready *ready, void *argument)
{
	(void)model, (void)ready, (void)argument;
	for (size_t i = 0; i < (size_t)batch * layer->out; i++)
		input_grad[i] = input[i] > 0 ? layer->output_grad[i] : 0;
	return 0;
}

static const struct layer_kind relu = { relu_print, relu_forward, relu_backward };

/* ---- The model ---- */

static int add_tensor(struct model *model, size_t count)
{
	model->tensors[model->tensor_count].count = count;
	model->parameter_count += count;
	return model->tensor_count++;
}

static void add_layer(struct model *model, const struct layer_kind *kind, int in, int out)
{
	struct layer *layer = &model->layers[model->layer_count++];
	*layer = (struct layer){ .kind = kind, .in = in, .out = out, .weight = -1, .bias = -1 };
	if (kind == &linear) {
		layer->weight = add_tensor(model, (size_t)out * in);
		layer->bias = add_tensor(model, out);
	}
}

static int place_activations(struct model *model)
{
	size_t count = 0;
	for (int l = 0; l < model->layer_count; l++)
		count += 2 * (size_t)model->batch_max * model->layers[l].out;
	model->activations = calloc(count, sizeof(float));
	if (!model->activations)
		return fail("out of memory for a batch of %d", model->batch_max);
	float *next = model->activations;
	for (int l = 0; l < model->layer_count; l++) {
		size_t size = (size_t)model->batch_max * model->layers[l].out;
		model->layers[l].output = next;
		model->layers[l].output_grad = next + size;
		next += 2 * size;
	}
	return 0;
}

static int place_parameters(struct model *model)
{
	model->parameters = calloc(model->parameter_count, sizeof(float));
	if (!model->parameters)
		return fail("out of memory for %zu parameters", model->parameter_count);
	float *next = model->parameters;
	for (int t = 0; t < model->tensor_count; t++) {
		model->tensors[t].value = next;
		next += model->tensors[t].count;
	}
	return 0;
}

static void draw_parameters(struct model *model, uint64_t seed)
{
	struct rng rng = rng_make(seed, 0);
	for (int l = 0; l < model->layer_count; l++) {
		const struct layer *layer = &model->layers[l];
		float bound = 1.0f / sqrtf((float)layer->in);
		if (layer->weight < 0)
			continue;
		for (int t = layer->weight; t <= layer->bias; t++)
			for (size_t i = 0; i < model->tensors[t].count; i++)
				model->tensors[t].value[i] = rng_between(&rng, -bound, bound);
	}
}

int model_create(
	struct model **out, const int *widths, int width_count, int batch_max, uint64_t seed)
{
	struct model *model = calloc(1, sizeof(*model));
	*out = NULL;
	if (!model)
		return fail("out of memory");
	model->in = widths[0];
	model->classes = widths[width_count - 1];
	model->batch_max = batch_max;
	for (int i = 1; i < width_count; i++) {
		add_layer(model, &linear, widths[i - 1], widths[i]);
		if (i < width_count - 1)
			add_layer(model, &relu, widths[i], widths[i]);
	}
	int err = place_parameters(model);
	if (!err)
		err = place_activations(model);
	if (err) {
		model_destroy(model);
		return err;
	}
	draw_parameters(model, seed);
	*out = model;
	return 0;
}

void model_destroy(struct model *model)
{
	if (!model)
		return;
	free(model->parameters);
	free(model->activations);
	free(model);
}

void model_print(const struct model *model, FILE *out)
{
	fprintf(out, "NeuralNetwork(\n  (flatten): Flatten(start_dim=1, end_dim=-1)\n"
		     "  (linear_relu_stack): Sequential(\n");
	for (int l = 0; l < model->layer_count; l++) {
		fprintf(out, "    (%d): ", l);
		model->layers[l].kind->print(&model->layers[l], out);
		fprintf(out, "\n");
	}
	fprintf(out, "  )\n)\n");
}

const float *model_forward(struct model *model, const float *images, int batch)
{
	const float *input = images;
	for (int l = 0; l < model->layer_count; l++) {
		const struct layer *layer = &model->layers[l];
		layer->kind->forward(model, layer, input, batch);
		input = layer->output;
	}
	return input;
}

/* ---- Softmax cross-entropy ---- */

static int largest(const float *logits /* [classes] */, int classes)
{
	int best = 0;
	for (int c = 1; c < classes; c++)
		if (logits[c] > logits[best])
			best = c;
	return best;
}

/* log(sum of exp(logit)), safe from overflow: the largest exponent is 0. */
static double log_sum_exp(const float *logits /* [classes] */, int classes)
{
	double top = logits[largest(logits, classes)], sum = 0;
	for (int c = 0; c < classes; c++)
		sum += exp(logits[c] - top);
	return top + log(sum);
}

double model_loss(const struct model *model, const uint8_t *labels, int batch, int *correct)
{
	const float *logits = model->layers[model->layer_count - 1].output; /* [batch][classes] */
	double loss = 0;
	*correct = 0;
	for (int row = 0; row < batch; row++, logits += model->classes) {
		loss += log_sum_exp(logits, model->classes) - logits[labels[row]];
		*correct += largest(logits, model->classes) == labels[row];
	}
	return loss;
}

/* The gradient of a row's loss by its logits: softmax, less 1 at the label. */
static void loss_backward(const struct model *model, const uint8_t *labels, int batch, float scale)
{
	const struct layer *top = &model->layers[model->layer_count - 1];
	for (int row = 0; row < batch; row++) {
		const float *logits = top->output + (size_t)row * model->classes; /* [classes] */
		float *grad = top->output_grad + (size_t)row * model->classes; /* [classes] */
		double norm = log_sum_exp(logits, model->classes);
		for (int c = 0; c < model->classes; c++)
			grad[c] = scale * (float)(exp(logits[c] - norm) - (c == labels[row]));
	}
}

int model_backward(struct model *model, const float *images, const uint8_t *labels, int batch,
	float scale, model_ready *ready, void *argument)
{
	loss_backward(model, labels, batch, scale);
	for (int l = model->layer_count - 1; l >= 0; l--) {
		const struct layer *layer = &model->layers[l];
		const float *input = l ? model->layers[l - 1].output : images;
		float *input_grad = l ? model->layers[l - 1].output_grad : NULL;
		int err = layer->kind->backward(
			model, layer, input, input_grad, batch, ready, argument);
		if (err)
			return err;
	}
	return 0;
}
