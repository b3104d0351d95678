/* Loss, optimizers and types of numbers on a GPU. */
#include <math.h>

#include "train/device/cuda/gpu.h"

/* Blocks that share a sum of squares. */
#define PARTS_MAX 512

void gpu_loss(struct device *device, int rows, int columns, const float *logits,
	const int32_t *labels, double *sums)
{
	struct gpu *gpu = (struct gpu *)device;
	double *losses = gpu_scratch(gpu, PARTS, 2 * ((size_t)rows + 1) * sizeof(*losses));
	void *of_rows[] = { &rows, &columns, &logits, &labels, &losses };
	void *of_all[] = { &rows, &losses, &sums };
	gpu_launch(gpu, KERNEL_loss_rows, rows, of_rows);
	gpu_launch(gpu, KERNEL_loss, 1, of_all);
}

void gpu_loss_grad(struct device *device, int rows, int columns, const float *logits,
	const int32_t *labels, float scale, float *grad)
{
	void *parameters[] = { &rows, &columns, &logits, &labels, &scale, &grad };
	gpu_launch((struct gpu *)device, KERNEL_loss_grad, rows, parameters);
}

void gpu_square_sum(struct device *device, size_t count, const float *values, double *sum)
{
	struct gpu *gpu = (struct gpu *)device;
	size_t blocks = gpu_blocks(count);
	int parts = blocks < PARTS_MAX ? (int)blocks : PARTS_MAX;
	double *sums = gpu_scratch(gpu, PARTS, PARTS_MAX * sizeof(*sums));
	void *of_parts[] = { &count, &parts, &values, &sums };
	void *of_all[] = { &parts, &sums, &sum };
	gpu_launch(gpu, KERNEL_square_parts, parts, of_parts);
	gpu_launch(gpu, KERNEL_square_sum, 1, of_all);
}

void gpu_clip_factor(struct device *device, const double *square_sum, float max_norm, float unscale,
	float *factor)
{
	void *parameters[] = { &square_sum, &max_norm, &unscale, &factor };
	gpu_launch((struct gpu *)device, KERNEL_clip_factor, 1, parameters);
}

void gpu_sgd(struct device *device, const struct sgd *sgd, size_t count, const float *grad,
	const float *factor, float *value, float *momentum)
{
	struct sgd step = *sgd;
	void *parameters[] = { &step, &count, &grad, &factor, &value, &momentum };
	gpu_launch((struct gpu *)device, KERNEL_sgd, gpu_blocks(count), parameters);
}

void gpu_adam(struct device *device, const struct adam *adam, size_t count, const float *grad,
	const float *factor, float *value, float *mean, float *square)
{
	struct adam step = *adam;
	float rate = (float)(adam->rate / (1 - pow(adam->beta1, (double)adam->step)));
	float root = (float)(1 / sqrt(1 - pow(adam->beta2, (double)adam->step)));
	void *parameters[] = { &step, &rate, &root, &count, &grad, &factor, &value, &mean,
		&square };
	gpu_launch((struct gpu *)device, KERNEL_adam, gpu_blocks(count), parameters);
}

void gpu_convert(struct device *device, size_t count, rondo_type from_type, const void *from,
	rondo_type to_type, void *to)
{
	bool narrows = from_type == RONDO_F32;
	bool bf16 = (narrows ? to_type : from_type) == RONDO_BF16;
	void *parameters[] = { &count, &from, &bf16, &to };
	gpu_launch((struct gpu *)device, narrows ? KERNEL_narrow : KERNEL_widen, gpu_blocks(count),
		parameters);
}
