/*
 * Convolution on a GPU: im2col and one batch of products for a chunk of images. (Chellapilla, Puri
 * and Simard, "High performance convolutional neural networks for document processing", 2006.)
 */
#include "train/device/cuda/gpu.h"

/* Bytes of a chunk: its columns are still in the L2 cache when cuBLAS reads them. */
#define CHUNK_SIZE (16 << 20)

/* Sizes of the products. */
struct sizes {
	int depth; /* weights of an output channel */
	int area; /* elements of an output plane */
	size_t in, out; /* elements of an image */
};

static struct sizes sizes_of(const struct conv *conv)
{
	int rows = conv->rows + 2 * conv->padding - conv->kernel + 1;
	int columns = conv->columns + 2 * conv->padding - conv->kernel + 1;
	return (struct sizes){
		.depth = conv->in_channels * conv->kernel * conv->kernel,
		.area = rows * columns,
		.in = (size_t)conv->in_channels * conv->rows * conv->columns,
		.out = (size_t)conv->out_channels * rows * columns,
	};
}

/* Images of a chunk that needs so many elements for each; memory for them is *room. */
static int open_chunk(struct gpu *gpu, const struct conv *conv, size_t elements, float **room)
{
	size_t size = elements * sizeof(float);
	size_t images = CHUNK_SIZE / size ? CHUNK_SIZE / size : 1;
	if (images > (size_t)conv->batch)
		images = conv->batch;
	*room = images ? gpu_scratch(gpu, PARTS, images * size) : NULL;
	return gpu->base.error || !images ? 0 : (int)images;
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

static void im2col(
	struct gpu *gpu, const struct conv *conv, int images, const float *in, float *columns)
{
	struct conv shape = *conv;
	void *parameters[] = { &shape, &images, &in, &columns };
	gpu_launch(gpu, KERNEL_im2col, (size_t)images * sizes_of(conv).depth, parameters);
}

static void fill_bias(struct gpu *gpu, const struct conv *conv, const float *bias, float *out)
{
	size_t planes = (size_t)conv->batch * conv->out_channels;
	int channels = conv->out_channels, area = sizes_of(conv).area;
	void *parameters[] = { &planes, &channels, &area, &bias, &out };
	gpu_launch(gpu, KERNEL_conv_bias, planes, parameters);
}

/* out[channels][area] += weight[channels][depth] columns[depth][area], for each image. */
void gpu_conv(struct device *device, const struct conv *conv, const float *in, const float *weight,
	const float *bias, float *out)
{
	struct gpu *gpu = (struct gpu *)device;
	struct sizes s = sizes_of(conv);
	size_t step = (size_t)s.depth * s.area;
	float *columns;
	int images = open_chunk(gpu, conv, step, &columns);
	fill_bias(gpu, conv, bias, out);
	for (int n = 0; images && n < conv->batch; n += images) {
		struct product product = {
			.batch = least(images, conv->batch - n),
			.rows = conv->out_channels,
			.columns = s.area,
			.inner = s.depth,
			.a = { .data = (float *)weight, .pitch = s.depth },
			.b = { .data = columns, .pitch = s.area, .step = step },
			.c = { .data = out + n * s.out, .pitch = s.area, .step = s.out },
			.alpha = 1,
			.beta = 1,
		};
		im2col(gpu, conv, product.batch, in + n * s.in, columns);
		gpu_product(device, &product);
	}
}

static void add_gradients(
	struct gpu *gpu, int images, size_t count, const float *gradients, float *grad)
{
	void *parameters[] = { &images, &count, &gradients, &grad };
	gpu_launch(gpu, KERNEL_conv_weight_grad, gpu_blocks(count), parameters);
}

static void bias_gradient(
	struct gpu *gpu, const struct conv *conv, const float *out_grad, float *bias_grad)
{
	struct planes shape = { conv->batch, conv->out_channels, 1, sizes_of(conv).area };
	const struct norm norm = { .shape = shape };
	double *sums;
	gpu_plane_sums(gpu, &shape, out_grad, &sums);
	gpu_norm_weight_grad(&gpu->base, &norm, sums, NULL, bias_grad);
}

/* weight_grad[channels][depth] = the sum of out_grad[channels][area] columns[depth][area]^T. The
   products of a chunk have a place each, and are added in the order of the images. */
void gpu_conv_weight_grad(struct device *device, const struct conv *conv, const float *in,
	const float *out_grad, float *weight_grad, float *bias_grad)
{
	struct gpu *gpu = (struct gpu *)device;
	struct sizes s = sizes_of(conv);
	size_t step = (size_t)s.depth * s.area, count = (size_t)conv->out_channels * s.depth;
	float *columns;
	bias_gradient(gpu, conv, out_grad, bias_grad);
	gpu_clear(device, weight_grad, count * sizeof(float));
	int images = open_chunk(gpu, conv, step + count, &columns);
	float *gradients = images ? columns + images * step : NULL;
	for (int n = 0; images && n < conv->batch; n += images) {
		struct product product = {
			.batch = least(images, conv->batch - n),
			.rows = conv->out_channels,
			.columns = s.depth,
			.inner = s.area,
			.a = { .data = (float *)out_grad + n * s.out,
				.pitch = s.area,
				.step = s.out },
			.b = { .data = columns,
				.pitch = s.area,
				.step = step,
				.layout = TRANSPOSED },
			.c = { .data = gradients, .pitch = s.depth, .step = count },
			.alpha = 1,
		};
		im2col(gpu, conv, product.batch, in + n * s.in, columns);
		gpu_product(device, &product);
		add_gradients(gpu, product.batch, count, gradients, weight_grad);
	}
}

/* columns[depth][area] = weight[channels][depth]^T out_grad[channels][area], for each image. */
void gpu_conv_in_grad(struct device *device, const struct conv *conv, const float *weight,
	const float *out_grad, float *in_grad)
{
	struct gpu *gpu = (struct gpu *)device;
	struct conv shape = *conv;
	struct sizes s = sizes_of(conv);
	size_t step = (size_t)s.depth * s.area;
	float *columns;
	int images = open_chunk(gpu, conv, step, &columns);
	for (int n = 0; images && n < conv->batch; n += images) {
		struct product product = {
			.batch = least(images, conv->batch - n),
			.rows = s.depth,
			.columns = s.area,
			.inner = conv->out_channels,
			.a = { .data = (float *)weight, .pitch = s.depth, .layout = TRANSPOSED },
			.b = { .data = (float *)out_grad + n * s.out,
				.pitch = s.area,
				.step = s.out },
			.c = { .data = columns, .pitch = s.area, .step = step },
			.alpha = 1,
		};
		float *to = in_grad + n * s.in;
		void *parameters[] = { &shape, &product.batch, &columns, &to };
		gpu_product(device, &product);
		gpu_launch(
			gpu, KERNEL_col2im, (size_t)product.batch * conv->in_channels, parameters);
	}
}
