/* Operations of text models on the CPU: GELU, embeddings, layer norm and attention's softmax. */
#include <string.h>

#include "train/device/cpu.h"
#include "train/device/cpu_vectors.h"

void cpu_gelu(struct device *device, size_t count, const float *in, float *out)
{
	(void)device;
	cpu_vectors()->gelu(count, in, out);
}

void cpu_gelu_grad(
	struct device *device, size_t count, const float *in, const float *out_grad, float *in_grad)
{
	(void)device;
	cpu_vectors()->gelu_grad(count, in, out_grad, in_grad);
}

/* ---- Embedding ---- */

void cpu_embed(struct device *device, const struct embedding *shape, const int32_t *tokens,
	const float *token_table, const float *position_table, float *out)
{
	size_t width = shape->width;
	for (int r = 0; r < shape->rows; r++)
		cpu_add(device, width, token_table + tokens[r] * width,
			position_table + r % shape->positions * width, out + r * width);
}

static void add_to(size_t count, const float *from, float *sums)
{
	for (size_t i = 0; i < count; i++)
		sums[i] += from[i];
}

void cpu_embed_grad(struct device *device, const struct embedding *shape, const int32_t *tokens,
	const float *out_grad, float *token_grad, float *position_grad)
{
	size_t width = shape->width;
	(void)device;
	memset(position_grad, 0, shape->positions * width * sizeof(float));
	for (int r = 0; r < shape->rows; r++) {
		const float *from = out_grad + r * width;
		add_to(width, from, token_grad + tokens[r] * width);
		add_to(width, from, position_grad + r % shape->positions * width);
	}
}

/* ---- Layer norm ---- */

void cpu_layer_norm(struct device *device, const struct layer_norm *norm, const float *in,
	const float *weight, const float *bias, float *saved, float *out)
{
	size_t columns = norm->columns;
	(void)device;
	for (int r = 0; r < norm->rows; r++)
		cpu_vectors()->layer_norm(columns, norm->epsilon, in + r * columns, weight, bias,
			&saved[r], &saved[norm->rows + r], out + r * columns);
}

void cpu_layer_norm_grad(struct device *device, const struct layer_norm *norm, const float *in,
	const float *saved, const float *weight, const float *out_grad, float *in_grad,
	float *weight_grad, float *bias_grad)
{
	size_t columns = norm->columns;
	(void)device;
	memset(weight_grad, 0, columns * sizeof(float));
	memset(bias_grad, 0, columns * sizeof(float));
	for (int r = 0; r < norm->rows; r++)
		cpu_vectors()->layer_norm_grad(columns, in + r * columns, saved[r],
			saved[norm->rows + r], weight, out_grad + r * columns,
			in_grad + r * columns, weight_grad, bias_grad);
}

/* ---- Attention ---- */

void cpu_causal_softmax(struct device *device, int matrices, int size, float scale, float *scores)
{
	const struct vector_loops *loops = cpu_vectors();
	for (int m = 0; m < matrices; m++) {
		for (int r = 0; r < size; r++, scores += size) {
			size_t count = r + 1;
			float top = loops->greatest(count, scale, scores);
			float sum = loops->exp_sum(count, scale, scores, top, scores);
			cpu_scale(device, count, 1 / sum, scores);
			memset(scores + count, 0, (size - count) * sizeof(float));
		}
	}
}

void cpu_causal_softmax_grad(struct device *device, int matrices, int size, float scale,
	const float *probabilities, float *grad)
{
	(void)device;
	for (int m = 0; m < matrices; m++) {
		for (int r = 0; r < size; r++, grad += size, probabilities += size) {
			size_t count = r + 1;
			float mean = cpu_vectors()->dot(count, probabilities, grad);
			for (size_t i = 0; i < count; i++)
				grad[i] = scale * probabilities[i] * (grad[i] - mean);
			memset(grad + count, 0, (size - count) * sizeof(float));
		}
	}
}
