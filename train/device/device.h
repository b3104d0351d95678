/*
 * A device holds the model and computes it: the host (cpu*.c: OpenBLAS and loops), or an NVIDIA
 * GPU (cuda/: cuBLAS and kernels of our own). Model, optimizer and ddp use this table alone.
 *
 * Matrices are row-major, images are [batch][channels][rows][columns] (PyTorch's NCHW), all dense
 * and in the device's memory. Operations run in the order of their calls; a GPU only queues them,
 * so they return nothing. The first failure sticks: later operations do nothing, and
 * device_failure() and wait() return it. Sums have the same order in every run.
 *
 * A stream for communication runs beside the computation. join() alone orders the two.
 *
 * One thread uses a device.
 */
#ifndef TRAIN_DEVICE_H
#define TRAIN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo.h>

#include "train/device/shapes.h"

enum device_kind { DEVICE_CPU, DEVICE_CUDA };

/* Whether a factor is [rows][columns], as in the product, or transposed. */
enum layout { AS_IS, TRANSPOSED };

enum track { COMPUTATION, COMMUNICATION };

/* A factor or the result of a product: `batch` matrices, each `step` elements after the last. */
struct matrix {
	float *data;
	int pitch; /* elements from one stored row to the next */
	enum layout layout; /* TRANSPOSED: rows of the product are stored columns */
	size_t step;
};

/* c = alpha a b + beta c, `batch` times: a is [rows][inner], b [inner][columns]. With beta 1 the
   host rounds as sgd() does, with the gradient a b and the rate -alpha. */
struct product {
	int batch;
	int rows, columns, inner; /* inner 0: a sum of nothing */
	struct matrix a, b, c; /* c is AS_IS */
	float alpha, beta;
};

struct device_ops;

struct device {
	const struct device_ops *ops;
	int number; /* for rondo_mem_alloc_on() and comms; -1: the host */
	char name[96]; /* "cpu", or the GPU's name */
	int error; /* the first failure, and its reason */
	char reason[512];
};

struct device_ops {
	void (*destroy)(struct device *device);

	/* ---- Memory ---- */

	/* Zeroed memory at a multiple of 64 bytes. free() takes effect after all queued operations,
	   and accepts NULL. */
	int (*alloc)(struct device *device, void **memory, size_t size);
	void (*free)(struct device *device, void *memory);
	/* Allocates for puts of up to `size` bytes, so that none allocates later. Call it before
	   the stream for communication has work. */
	int (*reserve)(struct device *device, size_t size);
	/* Copies to the device's memory. The caller may change `from` afterwards. */
	void (*put)(struct device *device, void *to, const void *from, size_t size);
	/* Copies from the device's memory. Waits for all operations so far. */
	int (*get)(struct device *device, void *to, const void *from, size_t size);
	/* Copies within the device's memory; the two places do not overlap. */
	void (*copy)(struct device *device, void *to, const void *from, size_t size);
	/* Sets bytes to zero. */
	void (*clear)(struct device *device, void *memory, size_t size);
	/* Waits for all operations so far; returns the first failure. */
	int (*wait)(struct device *device);
	/* Later products round their factors to this type, and add up in f32; RONDO_F32, the first
	   setting, rounds nothing. Fails where the device cannot. */
	int (*precision)(struct device *device, rondo_type type);

	/* ---- Rows and elements ---- */

	void (*product)(struct device *device, const struct product *product);
	/* Every row of out[rows][columns] = row[columns]. */
	void (*spread)(struct device *device, int rows, int columns, const float *row, float *out);
	/* sums[columns] = the sum of the rows of in[rows][columns]. */
	void (*column_sums)(
		struct device *device, int rows, int columns, const float *in, float *sums);
	/* out = a + b; out may be a or b. */
	void (*add)(
		struct device *device, size_t count, const float *a, const float *b, float *out);
	/* values *= factor */
	void (*scale)(struct device *device, size_t count, float factor, float *values);
	/* out[count] = max(in[count], 0); out may be in. */
	void (*relu)(struct device *device, size_t count, const float *in, float *out);
	/* in_grad[count] = out_grad[count] where out[count] > 0, else 0. May be in place. */
	void (*relu_grad)(struct device *device, size_t count, const float *out,
		const float *out_grad, float *in_grad);
	/* GELU by its tanh approximation, as GPT-2 has it (Hendrycks and Gimpel, 2016). */
	void (*gelu)(struct device *device, size_t count, const float *in, float *out);
	void (*gelu_grad)(struct device *device, size_t count, const float *in,
		const float *out_grad, float *in_grad);

	/* ---- Images ---- */

	/* out[batch][out_channels][..][..]; weight[out_channels][in_channels][kernel][kernel];
	   bias[out_channels]. */
	void (*conv)(struct device *device, const struct conv *conv, const float *in,
		const float *weight, const float *bias, float *out);
	/* Gradients of the parameters, summed over the batch. */
	void (*conv_weight_grad)(struct device *device, const struct conv *conv, const float *in,
		const float *out_grad, float *weight_grad, float *bias_grad);
	void (*conv_in_grad)(struct device *device, const struct conv *conv, const float *weight,
		const float *out_grad, float *in_grad);
	/*
	 * Batch norm has two parts, so that ranks may add up sums[2 * channels] between them
	 * (SyncBatchNorm). norm_sums: sums[c] = the sum of a channel, sums[channels + c] = the sum
	 * of its squares.
	 */
	void (*norm_sums)(
		struct device *device, const struct norm *norm, const float *in, double *sums);
	/*
	 * mean and inverse deviation of each channel, saved[2 * channels], from the sums over
	 * `count` elements of a channel. Where running_mean is not NULL, running mean and
	 * variance [channels] move by `momentum` to those of the batch, the unbiased variance.
	 */
	void (*norm_moments)(struct device *device, const struct norm *norm, const double *sums,
		double count, float momentum, float *saved, float *running_mean,
		float *running_variance);
	/* saved[] of the running statistics: for evaluation. */
	void (*norm_fixed)(struct device *device, const struct norm *norm,
		const float *running_mean, const float *running_variance, float *saved);
	/* out = (in - mean) * inverse deviation * weight + bias, then ReLU if norm->relu. */
	void (*norm)(struct device *device, const struct norm *norm, const float *in,
		const float *saved, const float *weight, const float *bias, float *out);
	/* sums[c] = the sum of out_grad, sums[channels + c] = that of out_grad times the normalised
	   input: gradients of bias and weight. With ReLU, out_grad counts where out > 0. */
	void (*norm_grad_sums)(struct device *device, const struct norm *norm, const float *in,
		const float *out, const float *out_grad, const float *saved, double *sums);
	/* The gradients of weight and bias from this rank's sums. */
	void (*norm_weight_grad)(struct device *device, const struct norm *norm, const double *sums,
		float *weight_grad, float *bias_grad);
	/* From the sums over `count` elements of a channel, on all ranks that share them. */
	void (*norm_in_grad)(struct device *device, const struct norm *norm, const float *in,
		const float *out, const float *out_grad, const float *saved, const float *weight,
		const double *sums, double count, float *in_grad);
	/* Max-pooling of 2 x 2, stride 2; an odd last row or column is left out. index: which of
	   the four was the largest, the first of equals. */
	void (*max_pool)(struct device *device, const struct planes *in_shape, const float *in,
		float *out, uint8_t *index);
	void (*max_pool_grad)(struct device *device, const struct planes *in_shape,
		const uint8_t *index, const float *out_grad, float *in_grad);

	/* ---- Text ---- */

	/* out[rows][width] = token_table[tokens[r]] + position_table[r % positions]. */
	void (*embed)(struct device *device, const struct embedding *shape, const int32_t *tokens,
		const float *token_table, const float *position_table, float *out);
	/* Adds to token_grad[vocabulary][width]; sets position_grad[positions][width]. */
	void (*embed_grad)(struct device *device, const struct embedding *shape,
		const int32_t *tokens, const float *out_grad, float *token_grad,
		float *position_grad);
	/* saved[2][rows]: mean and inverse deviation. */
	void (*layer_norm)(struct device *device, const struct layer_norm *norm, const float *in,
		const float *weight, const float *bias, float *saved, float *out);
	/* Gradients of weight and bias are sums over the rows. */
	void (*layer_norm_grad)(struct device *device, const struct layer_norm *norm,
		const float *in, const float *saved, const float *weight, const float *out_grad,
		float *in_grad, float *weight_grad, float *bias_grad);
	/* In place, for scores[matrices][size][size]: row r becomes the softmax of scale times its
	   first r + 1 elements, and 0 after them. */
	void (*causal_softmax)(
		struct device *device, int matrices, int size, float scale, float *scores);
	/* In place: from the gradient of the probabilities to that of the scores. */
	void (*causal_softmax_grad)(struct device *device, int matrices, int size, float scale,
		const float *probabilities, float *grad);

	/* ---- Loss ---- */

	/* For logits[rows][columns] and labels[rows]: sums[0] += the sum of the cross-entropies,
	   sums[1] += the number of rows whose largest logit is at the label. */
	void (*loss)(struct device *device, int rows, int columns, const float *logits,
		const int32_t *labels, double *sums);
	/* grad[rows][columns] = scale times the gradient of sums[0] by the logits. May be in
	   place. */
	void (*loss_grad)(struct device *device, int rows, int columns, const float *logits,
		const int32_t *labels, float scale, float *grad);

	/* ---- Optimizer ---- */

	/* *sum += the sum of squares, in double precision. */
	void (*square_sum)(struct device *device, size_t count, const float *values, double *sum);
	/* *factor = unscale * min(1, max_norm / (unscale * sqrt(*square_sum) + 1e-6)), as
	   clip_grad_norm_ has it; max_norm 0: unscale alone. A sum that is not finite gives NaN. */
	void (*clip_factor)(struct device *device, const double *square_sum, float max_norm,
		float unscale, float *factor);
	/* A step with gradient *factor * grad, or grad where factor is NULL. NaN: no step.
	   momentum: [count], NULL without momentum. */
	void (*sgd)(struct device *device, const struct sgd *sgd, size_t count, const float *grad,
		const float *factor, float *value, float *momentum);
	void (*adam)(struct device *device, const struct adam *adam, size_t count,
		const float *grad, const float *factor, float *value, float *mean, float *square);
	/* Converts between RONDO_F32 and RONDO_F16 or RONDO_BF16, to nearest even. */
	void (*convert)(struct device *device, size_t count, rondo_type from_type, const void *from,
		rondo_type to_type, void *to);

	/* ---- Communication ---- */

	/* Creates the stream for communication, at most one. Destroy it before the device. */
	int (*stream)(struct device *device, rondo_stream **stream);
	/* Later operations on this track wait for all on the other so far. */
	int (*join)(struct device *device, enum track track);
	/* Room for moments 0 to count - 1. Discards earlier ones. */
	int (*moments)(struct device *device, int count);
	/* Records the time at which the track gets here. */
	void (*record)(struct device *device, enum track track, int moment);
	/* Seconds between the last records of two moments. Waits for them. */
	double (*between)(struct device *device, int from, int to);
};

/*
 * local_rank modulo the number of GPUs selects one. On failure *device is NULL, and the line names
 * a remedy.
 */
int device_create(struct device **device, enum device_kind kind, int local_rank);
/* Accepts NULL. */
void device_destroy(struct device *device);

/* The first failure, without waiting; 0: none so far. */
int device_failure(const struct device *device);

/* c[rows][columns] = a[rows][inner] b[inner][columns] + beta c, all dense. */
void device_multiply(struct device *device, int rows, int columns, int inner, const float *a,
	enum layout a_layout, const float *b, enum layout b_layout, float beta, float *c);

/* The constructors of all kinds. */
int cpu_create(struct device **device);
int cuda_create(struct device **device, int local_rank);

#endif
