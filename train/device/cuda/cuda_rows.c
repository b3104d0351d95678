/* Rows and elements on a GPU. */
#include "train/device/cuda/gpu.h"

void gpu_spread(struct device *device, int rows, int columns, const float *row, float *out)
{
	void *parameters[] = { &rows, &columns, &row, &out };
	gpu_launch((struct gpu *)device, KERNEL_spread, rows, parameters);
}

int gpu_parts(int rows)
{
	return rows > ROWS_A_PART ? (rows + ROWS_A_PART - 1) / ROWS_A_PART : 1;
}

size_t gpu_column_blocks(int columns)
{
	return (columns + TRAIN_SUM_COLUMNS - 1) / TRAIN_SUM_COLUMNS;
}

void gpu_add_rows(
	struct gpu *gpu, int rows, int columns, int rows_a_part, const float *in, float *sums)
{
	size_t parts = rows > rows_a_part ? (rows + rows_a_part - 1) / rows_a_part : 1;
	void *parameters[] = { &rows, &columns, &rows_a_part, &in, &sums };
	gpu_launch(gpu, KERNEL_column_sums, gpu_column_blocks(columns) * parts, parameters);
}

/* Many rows in two steps, so that the first occupies the whole GPU. */
void gpu_column_sums(struct device *device, int rows, int columns, const float *in, float *sums)
{
	struct gpu *gpu = (struct gpu *)device;
	int parts = gpu_parts(rows);
	float *partial = sums;
	if (parts > 1)
		partial = gpu_scratch(gpu, PARTS, (size_t)parts * columns * sizeof(*partial));
	gpu_add_rows(gpu, rows, columns, ROWS_A_PART, in, partial);
	if (parts > 1)
		gpu_add_rows(gpu, parts, columns, parts, partial, sums);
}

void gpu_add(struct device *device, size_t count, const float *a, const float *b, float *out)
{
	void *parameters[] = { &count, &a, &b, &out };
	gpu_launch((struct gpu *)device, KERNEL_add, gpu_blocks(count), parameters);
}

void gpu_scale(struct device *device, size_t count, float factor, float *values)
{
	void *parameters[] = { &count, &factor, &values };
	gpu_launch((struct gpu *)device, KERNEL_scale, gpu_blocks(count), parameters);
}

void gpu_relu(struct device *device, size_t count, const float *in, float *out)
{
	void *parameters[] = { &count, &in, &out };
	gpu_launch((struct gpu *)device, KERNEL_relu, gpu_blocks(count), parameters);
}

void gpu_relu_grad(struct device *device, size_t count, const float *out, const float *out_grad,
	float *in_grad)
{
	void *parameters[] = { &count, &out, &out_grad, &in_grad };
	gpu_launch((struct gpu *)device, KERNEL_relu_grad, gpu_blocks(count), parameters);
}

void gpu_gelu(struct device *device, size_t count, const float *in, float *out)
{
	void *parameters[] = { &count, &in, &out };
	gpu_launch((struct gpu *)device, KERNEL_gelu, gpu_blocks(count), parameters);
}

void gpu_gelu_grad(
	struct device *device, size_t count, const float *in, const float *out_grad, float *in_grad)
{
	void *parameters[] = { &count, &in, &out_grad, &in_grad };
	gpu_launch((struct gpu *)device, KERNEL_gelu_grad, gpu_blocks(count), parameters);
}
