/*
 * Inner loops of the images' operations, in one variant for each width of vectors. cpu_images.c
 * chooses the widest that the processor has, once, before main(). A variant gives the same bits in
 * every run; variants differ by rounding.
 */
#ifndef TRAIN_DEVICE_CPU_IMAGES_H
#define TRAIN_DEVICE_CPU_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/device/shapes.h"

/* Floats behind a shifted plane, for vectors that begin in it. The first 16 are zeros. */
#define SHIFT_SLACK 32

/*
 * Images that a convolution reads are shifted first. A channel [rows][columns] becomes `kernel`
 * planes of [rows + 2 padding][out_columns], zeros in the padding: plane x holds the columns that
 * column x of the kernel meets. So a row y of the kernel meets all pixels of the output in one run,
 * which begins y * out_columns into the plane. Vectors cross the ends of rows. This is im2col
 * over the columns of the kernel alone, so it copies `kernel` floats for one, not `kernel` squared.
 */
struct shifted {
	struct conv shape;
	int out_columns;
	int out_pixels; /* of a channel: output rows * output columns */
	size_t plane; /* floats from one plane to the next, slack included */
};

struct image_kernels {
	/* shifted[channels][kernel][plane] of in[channels][rows][columns]. */
	void (*shift)(
		const struct shifted *geometry, int channels, const float *in, float *shifted);
	/* One image: out[out_channels][out_pixels] of shifted[in_channels][kernel][plane]. bias
	   NULL: zeros. */
	void (*conv)(const struct shifted *geometry, const float *shifted, const float *weight,
		const float *bias, float *out);
	/* sums[channels] += the sum of each channel of image[channels][pixels]. */
	void (*channel_sums)(int channels, int pixels, const float *image, float *sums);
	/* Adds the gradients of the weights of one channel of the input over `images` images.
	   shifted[images][kernel][plane] is that channel; weight_grad points at its first weight
	   in [out_channels][in_channels][kernel][kernel]. */
	void (*conv_weight_grad)(const struct shifted *geometry, int images, const float *shifted,
		const float *out_grad, float *weight_grad);

	/* Batch norm of one plane, `count` floats of one channel. sums[2] += the sum and the sum of
	   squares, in double precision. */
	void (*norm_sums)(int count, const float *in, double *sums);
	/* out = scale in + shift, then ReLU if relu. */
	void (*norm)(int count, const float *in, float scale, float shift, bool relu, float *out);
	/* sums[2] += the sums of g and of g in, where g = out_grad where out > 0, else 0; out NULL:
	   everywhere. */
	void (*norm_grad_sums)(
		int count, const float *in, const float *out, const float *out_grad, double *sums);
	/* in_grad = grad_factor g + in_factor in + shift, with the same g. */
	void (*norm_in_grad)(int count, const float *in, const float *out, const float *out_grad,
		float grad_factor, float in_factor, float shift, float *in_grad);

	/* Max-pooling of one plane, and its gradient. */
	void (*max_pool)(int rows, int columns, const float *in, float *out, uint8_t *index);
	void (*max_pool_grad)(
		int rows, int columns, const uint8_t *index, const float *out_grad, float *in_grad);
};

/* The chosen variant. */
const struct image_kernels *cpu_images(void);
/* Chooses "avx512", "avx2" or "plain". For tests. Returns whether the processor has it. */
bool cpu_images_choose(const char *name);

extern const struct image_kernels cpu_images_avx512, cpu_images_avx2, cpu_images_plain;

#endif
