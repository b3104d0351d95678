/* Embeddings, layer norm and attention's softmax on a GPU. */
#include "train/device/cuda/gpu.h"

void gpu_embed(struct device *device, const struct embedding *shape, const int32_t *tokens,
	const float *token_table, const float *position_table, float *out)
{
	struct embedding s = *shape;
	void *parameters[] = { &s, &tokens, &token_table, &position_table, &out };
	gpu_launch((struct gpu *)device, KERNEL_embed, s.rows, parameters);
}

void gpu_embed_grad(struct device *device, const struct embedding *shape, const int32_t *tokens,
	const float *out_grad, float *token_grad, float *position_grad)
{
	struct gpu *gpu = (struct gpu *)device;
	struct embedding s = *shape;
	void *of_positions[] = { &s, &out_grad, &position_grad };
	gpu_launch(gpu, KERNEL_embed_position_grad, s.positions, of_positions);
	if (!s.rows)
		return;
	int32_t *order = gpu_scratch(gpu, PARTS, 2 * (size_t)s.rows * sizeof(*order));
	int32_t *counts = order ? order + s.rows : NULL;
	void *of_order[] = { &s.rows, &tokens, &order, &counts };
	gpu_launch(gpu, KERNEL_embed_order, gpu_blocks(s.rows), of_order);
	void *of_tokens[] = { &s, &tokens, &order, &counts, &out_grad, &token_grad };
	gpu_launch(gpu, KERNEL_embed_token_grad, s.rows * gpu_column_blocks(s.width), of_tokens);
}

void gpu_layer_norm(struct device *device, const struct layer_norm *norm, const float *in,
	const float *weight, const float *bias, float *saved, float *out)
{
	struct layer_norm shape = *norm;
	void *parameters[] = { &shape, &in, &weight, &bias, &saved, &out };
	gpu_launch((struct gpu *)device, KERNEL_layer_norm, shape.rows, parameters);
}

void gpu_layer_norm_grad(struct device *device, const struct layer_norm *norm, const float *in,
	const float *saved, const float *weight, const float *out_grad, float *in_grad,
	float *weight_grad, float *bias_grad)
{
	struct gpu *gpu = (struct gpu *)device;
	struct layer_norm shape = *norm;
	int parts = gpu_parts(shape.rows), rows_a_part = ROWS_A_PART, columns = shape.columns;
	float *sums = gpu_scratch(gpu, PARTS, (size_t)parts * columns * sizeof(*sums));
	void *of_weight[] = { &shape, &rows_a_part, &in, &saved, &out_grad, &sums };
	void *of_in[] = { &shape, &in, &saved, &weight, &out_grad, &in_grad };
	gpu_launch(
		gpu, KERNEL_layer_norm_weight_grad, gpu_column_blocks(columns) * parts, of_weight);
	gpu_add_rows(gpu, parts, columns, parts, sums, weight_grad);
	gpu_column_sums(device, shape.rows, columns, out_grad, bias_grad);
	gpu_launch(gpu, KERNEL_layer_norm_in_grad, shape.rows, of_in);
}

void gpu_causal_softmax(struct device *device, int matrices, int size, float scale, float *scores)
{
	void *parameters[] = { &matrices, &size, &scale, &scores };
	gpu_launch(
		(struct gpu *)device, KERNEL_causal_softmax, (size_t)matrices * size, parameters);
}

void gpu_causal_softmax_grad(struct device *device, int matrices, int size, float scale,
	const float *probabilities, float *grad)
{
	void *parameters[] = { &matrices, &size, &scale, &probabilities, &grad };
	gpu_launch((struct gpu *)device, KERNEL_causal_softmax_grad, (size_t)matrices * size,
		parameters);
}
