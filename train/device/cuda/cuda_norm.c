/* Batch norm and max-pooling on a GPU. */
#include "train/device/cuda/gpu.h"

/* Blocks that share the sums of a channel. */
#define PARTS_MAX 64

/* Memory for sums of parts[*part_count][2 * channels]. */
static double *open_parts(struct gpu *gpu, const struct planes *shape, int *part_count)
{
	*part_count = shape->batch < PARTS_MAX ? shape->batch : PARTS_MAX;
	if (*part_count < 1)
		*part_count = 1;
	/* One part more, for the sums of gpu_plane_sums(). */
	return gpu_scratch(
		gpu, PARTS, (*part_count + 1) * 2 * (size_t)shape->channels * sizeof(double));
}

static void add_parts(struct gpu *gpu, int part_count, int count, double *parts, double *sums)
{
	void *parameters[] = { &part_count, &count, &parts, &sums };
	gpu_launch(gpu, KERNEL_part_sums, gpu_blocks(count), parameters);
}

void gpu_plane_sums(struct gpu *gpu, const struct planes *planes, const float *in, double **sums)
{
	struct planes shape = *planes;
	int part_count, count = 2 * shape.channels;
	double *parts = open_parts(gpu, &shape, &part_count);
	void *parameters[] = { &shape, &part_count, &in, &parts };
	*sums = parts ? parts + (size_t)part_count * count : NULL;
	gpu_launch(gpu, KERNEL_plane_sums, (size_t)shape.channels * part_count, parameters);
	add_parts(gpu, part_count, count, parts, *sums);
}

void gpu_norm_sums(struct device *device, const struct norm *norm, const float *in, double *sums)
{
	struct gpu *gpu = (struct gpu *)device;
	struct planes shape = norm->shape;
	int part_count;
	double *parts = open_parts(gpu, &shape, &part_count);
	void *parameters[] = { &shape, &part_count, &in, &parts };
	gpu_launch(gpu, KERNEL_norm_sums, (size_t)shape.channels * part_count, parameters);
	add_parts(gpu, part_count, 2 * shape.channels, parts, sums);
}

void gpu_norm_moments(struct device *device, const struct norm *norm, const double *sums,
	double count, float momentum, float *saved, float *running_mean, float *running_variance)
{
	struct norm shape = *norm;
	void *parameters[] = { &shape, &sums, &count, &momentum, &saved, &running_mean,
		&running_variance };
	gpu_launch((struct gpu *)device, KERNEL_norm_moments, gpu_blocks(shape.shape.channels),
		parameters);
}

void gpu_norm_fixed(struct device *device, const struct norm *norm, const float *running_mean,
	const float *running_variance, float *saved)
{
	struct norm shape = *norm;
	void *parameters[] = { &shape, &running_mean, &running_variance, &saved };
	gpu_launch((struct gpu *)device, KERNEL_norm_fixed, gpu_blocks(shape.shape.channels),
		parameters);
}

static size_t planes_of(const struct planes *shape)
{
	return (size_t)shape->batch * shape->channels;
}

void gpu_norm(struct device *device, const struct norm *norm, const float *in, const float *saved,
	const float *weight, const float *bias, float *out)
{
	struct norm shape = *norm;
	void *parameters[] = { &shape, &in, &saved, &weight, &bias, &out };
	gpu_launch((struct gpu *)device, KERNEL_norm, planes_of(&norm->shape), parameters);
}

void gpu_norm_grad_sums(struct device *device, const struct norm *norm, const float *in,
	const float *out, const float *out_grad, const float *saved, double *sums)
{
	struct gpu *gpu = (struct gpu *)device;
	struct norm shape = *norm;
	int part_count;
	double *parts = open_parts(gpu, &norm->shape, &part_count);
	void *parameters[] = { &shape, &part_count, &in, &out, &out_grad, &saved, &parts };
	gpu_launch(
		gpu, KERNEL_norm_grad_sums, (size_t)norm->shape.channels * part_count, parameters);
	add_parts(gpu, part_count, 2 * norm->shape.channels, parts, sums);
}

void gpu_norm_weight_grad(struct device *device, const struct norm *norm, const double *sums,
	float *weight_grad, float *bias_grad)
{
	struct norm shape = *norm;
	void *parameters[] = { &shape, &sums, &weight_grad, &bias_grad };
	gpu_launch((struct gpu *)device, KERNEL_norm_weight_grad, gpu_blocks(shape.shape.channels),
		parameters);
}

void gpu_norm_in_grad(struct device *device, const struct norm *norm, const float *in,
	const float *out, const float *out_grad, const float *saved, const float *weight,
	const double *sums, double count, float *in_grad)
{
	struct norm shape = *norm;
	void *parameters[] = { &shape, &in, &out, &out_grad, &saved, &weight, &sums, &count,
		&in_grad };
	gpu_launch((struct gpu *)device, KERNEL_norm_in_grad, planes_of(&norm->shape), parameters);
}

void gpu_max_pool(struct device *device, const struct planes *in_shape, const float *in, float *out,
	uint8_t *index)
{
	struct planes shape = *in_shape;
	void *parameters[] = { &shape, &in, &out, &index };
	gpu_launch((struct gpu *)device, KERNEL_max_pool, planes_of(in_shape), parameters);
}

void gpu_max_pool_grad(struct device *device, const struct planes *in_shape, const uint8_t *index,
	const float *out_grad, float *in_grad)
{
	struct planes shape = *in_shape;
	void *parameters[] = { &shape, &index, &out_grad, &in_grad };
	gpu_launch((struct gpu *)device, KERNEL_max_pool_grad, planes_of(in_shape), parameters);
}
