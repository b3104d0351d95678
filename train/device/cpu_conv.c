/* Convolution on the CPU: image by image through the kernels of cpu_images.h. */
#include <string.h>

#include "train/device/cpu.h"
#include "train/device/cpu_images.h"

/* Images of a block that the gradient of the weights sums in registers: as many as have so many
   pixels in a channel. More save additions across vectors; fewer stay in the caches. */
#define BLOCK_PIXELS 2048

static struct shifted shifted_of(const struct conv *shape)
{
	int out_rows = shape->rows + 2 * shape->padding - shape->kernel + 1;
	int out_columns = shape->columns + 2 * shape->padding - shape->kernel + 1;
	return (struct shifted){
		.shape = *shape,
		.out_columns = out_columns,
		.out_pixels = out_rows * out_columns,
		.plane = (size_t)(shape->rows + 2 * shape->padding) * out_columns + SHIFT_SLACK,
	};
}

static void convolve(float *shifted, const struct conv *shape, const float *in, const float *weight,
	const float *bias, float *out)
{
	const struct image_kernels *kernels = cpu_images();
	const struct shifted geometry = shifted_of(shape);
	size_t in_image = (size_t)shape->in_channels * shape->rows * shape->columns;
	size_t out_image = (size_t)shape->out_channels * geometry.out_pixels;
	for (int n = 0; n < shape->batch; n++) {
		kernels->shift(&geometry, shape->in_channels, in + n * in_image, shifted);
		kernels->conv(&geometry, shifted, weight, bias, out + n * out_image);
	}
}

static size_t convolve_scratch(const struct conv *shape)
{
	return (size_t)shape->in_channels * shape->kernel * shifted_of(shape).plane;
}

void cpu_conv(struct device *device, const struct conv *shape, const float *in, const float *weight,
	const float *bias, float *out)
{
	float *scratch = cpu_scratch(device, convolve_scratch(shape));
	if (scratch)
		convolve(scratch, shape, in, weight, bias, out);
}

void cpu_conv_weight_grad(struct device *device, const struct conv *shape, const float *in,
	const float *out_grad, float *weight_grad, float *bias_grad)
{
	const struct image_kernels *kernels = cpu_images();
	const struct shifted geometry = shifted_of(shape);
	int kernel = shape->kernel, channels = shape->in_channels;
	size_t pixels = (size_t)shape->rows * shape->columns;
	size_t out_image = (size_t)shape->out_channels * geometry.out_pixels;
	int block = BLOCK_PIXELS / geometry.out_pixels + 1;
	float *shifted = cpu_scratch(device, block * kernel * geometry.plane);
	if (!shifted)
		return;
	memset(bias_grad, 0, shape->out_channels * sizeof(float));
	memset(weight_grad, 0,
		(size_t)shape->out_channels * channels * kernel * kernel * sizeof(float));
	for (int n = 0; n < shape->batch; n += block) {
		int images = shape->batch - n < block ? shape->batch - n : block;
		const float *grad = out_grad + n * out_image;
		for (int m = 0; m < images; m++)
			kernels->channel_sums(shape->out_channels, geometry.out_pixels,
				grad + m * out_image, bias_grad);
		for (int i = 0; i < channels; i++) {
			for (int m = 0; m < images; m++)
				kernels->shift(&geometry, 1,
					in + ((size_t)(n + m) * channels + i) * pixels,
					shifted + m * kernel * geometry.plane);
			kernels->conv_weight_grad(&geometry, images, shifted, grad,
				weight_grad + (size_t)i * kernel * kernel);
		}
	}
}

/* to[in][out][y][x] = from[out][in][kernel - 1 - y][kernel - 1 - x] */
static void turn(const struct conv *shape, const float *from, float *to)
{
	int taps = shape->kernel * shape->kernel;
	for (int i = 0; i < shape->in_channels; i++)
		for (int o = 0; o < shape->out_channels; o++, to += taps)
			for (int t = 0; t < taps; t++)
				to[t] = from[((size_t)o * shape->in_channels + i) * taps + taps -
					     1 - t];
}

/* The gradient of the input is a convolution of the output's, with turned weights. */
void cpu_conv_in_grad(struct device *device, const struct conv *shape, const float *weight,
	const float *out_grad, float *in_grad)
{
	const struct conv turned = {
		.batch = shape->batch,
		.in_channels = shape->out_channels,
		.out_channels = shape->in_channels,
		.rows = shape->rows + 2 * shape->padding - shape->kernel + 1,
		.columns = shape->columns + 2 * shape->padding - shape->kernel + 1,
		.kernel = shape->kernel,
		.padding = shape->kernel - 1 - shape->padding,
	};
	size_t weights =
		(size_t)shape->out_channels * shape->in_channels * shape->kernel * shape->kernel;
	float *scratch = cpu_scratch(device, weights + convolve_scratch(&turned));
	if (!scratch)
		return;
	turn(shape, weight, scratch);
	convolve(scratch + weights, &turned, out_grad, scratch, NULL, in_grad);
}
