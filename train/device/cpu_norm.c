/* Batch norm on the CPU: plane by plane through the kernels of cpu_images.h. */
#include <math.h>
#include <string.h>

#include "train/device/cpu.h"
#include "train/device/cpu_images.h"

static size_t plane_of(const struct planes *shape)
{
	return (size_t)shape->rows * shape->columns;
}

void cpu_norm_sums(struct device *device, const struct norm *norm, const float *in, double *sums)
{
	const struct image_kernels *kernels = cpu_images();
	const struct planes *shape = &norm->shape;
	size_t plane = plane_of(shape);
	(void)device;
	memset(sums, 0, 2 * shape->channels * sizeof(*sums));
	for (int n = 0; n < shape->batch; n++)
		for (int c = 0; c < shape->channels; c++, in += plane) {
			double both[2] = { 0 };
			kernels->norm_sums((int)plane, in, both);
			sums[c] += both[0];
			sums[shape->channels + c] += both[1];
		}
}

void cpu_norm_moments(struct device *device, const struct norm *norm, const double *sums,
	double count, float momentum, float *saved, float *running_mean, float *running_variance)
{
	int channels = norm->shape.channels;
	(void)device;
	for (int c = 0; c < channels; c++) {
		double mean = sums[c] / count;
		double variance = sums[channels + c] / count - mean * mean;
		if (variance < 0) /* by rounding */
			variance = 0;
		saved[c] = (float)mean;
		saved[channels + c] = (float)(1 / sqrt(variance + norm->epsilon));
		double unbiased = count > 1 ? variance * count / (count - 1) : variance;
		if (!running_mean)
			continue;
		running_mean[c] += momentum * ((float)mean - running_mean[c]);
		running_variance[c] += momentum * ((float)unbiased - running_variance[c]);
	}
}

void cpu_norm_fixed(struct device *device, const struct norm *norm, const float *running_mean,
	const float *running_variance, float *saved)
{
	int channels = norm->shape.channels;
	(void)device;
	for (int c = 0; c < channels; c++) {
		saved[c] = running_mean[c];
		saved[channels + c] = 1 / sqrtf(running_variance[c] + norm->epsilon);
	}
}

void cpu_norm(struct device *device, const struct norm *norm, const float *in, const float *saved,
	const float *weight, const float *bias, float *out)
{
	const struct image_kernels *kernels = cpu_images();
	const struct planes *shape = &norm->shape;
	size_t plane = plane_of(shape);
	(void)device;
	for (int n = 0; n < shape->batch; n++)
		for (int c = 0; c < shape->channels; c++, in += plane, out += plane) {
			float scale = saved[shape->channels + c] * weight[c];
			kernels->norm(
				(int)plane, in, scale, bias[c] - saved[c] * scale, norm->relu, out);
		}
}

void cpu_norm_grad_sums(struct device *device, const struct norm *norm, const float *in,
	const float *out, const float *out_grad, const float *saved, double *sums)
{
	const struct image_kernels *kernels = cpu_images();
	const struct planes *shape = &norm->shape;
	int channels = shape->channels;
	size_t plane = plane_of(shape), at = 0;
	(void)device;
	memset(sums, 0, 2 * channels * sizeof(*sums));
	for (int n = 0; n < shape->batch; n++)
		for (int c = 0; c < channels; c++, at += plane) {
			double both[2] = { 0 };
			kernels->norm_grad_sums((int)plane, in + at, norm->relu ? out + at : NULL,
				out_grad + at, both);
			sums[c] += both[0];
			sums[channels + c] += both[1];
		}
	/* From sums of g in to sums of g (in - mean) * inverse deviation. */
	for (int c = 0; c < channels; c++)
		sums[channels + c] =
			(sums[channels + c] - saved[c] * sums[c]) * saved[channels + c];
}

void cpu_norm_weight_grad(struct device *device, const struct norm *norm, const double *sums,
	float *weight_grad, float *bias_grad)
{
	int channels = norm->shape.channels;
	(void)device;
	for (int c = 0; c < channels; c++) {
		bias_grad[c] = (float)sums[c];
		weight_grad[c] = (float)sums[channels + c];
	}
}

void cpu_norm_in_grad(struct device *device, const struct norm *norm, const float *in,
	const float *out, const float *out_grad, const float *saved, const float *weight,
	const double *sums, double count, float *in_grad)
{
	const struct image_kernels *kernels = cpu_images();
	const struct planes *shape = &norm->shape;
	int channels = shape->channels;
	size_t plane = plane_of(shape), at = 0;
	(void)device;
	for (int n = 0; n < shape->batch; n++)
		for (int c = 0; c < channels; c++, at += plane) {
			/* weight / deviation * (g - mean of g - x * mean of g x), where
			   x = (in - mean) / deviation. */
			double mean = saved[c], inverse = saved[channels + c];
			double grad_factor = weight[c] * inverse;
			double in_factor = -grad_factor * inverse * sums[channels + c] / count;
			double shift = -grad_factor * sums[c] / count - mean * in_factor;
			kernels->norm_in_grad((int)plane, in + at, norm->relu ? out + at : NULL,
				out_grad + at, (float)grad_factor, (float)in_factor, (float)shift,
				in_grad + at);
		}
}
