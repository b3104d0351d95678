/* An NVIDIA GPU as a device: its state, and the operations by file. */
#ifndef TRAIN_CUDA_GPU_H
#define TRAIN_CUDA_GPU_H

#include <stdbool.h>

#include "train/device/cuda/driver.h"
#include "train/device/cuda/kernels.h"
#include "train/device/device.h"

enum kernel {
#define TRAIN_KERNEL(name) KERNEL_##name,
	TRAIN_KERNELS(TRAIN_KERNEL)
#undef TRAIN_KERNEL
		KERNEL_COUNT
};

/* Puts under way at most: the images and labels of two steps. */
#define SLOTS 4

/* Host memory that the GPU copies from. */
struct slot {
	void *memory;
	size_t size;
	CUevent copied;
};

/* Memory of an operation, between its kernels. */
enum scratch { PARTS, FACTOR_A, FACTOR_B, SCRATCH_COUNT };

struct gpu {
	struct device base;
	CUdevice handle;
	CUcontext
		context; /* the primary one, which rondo uses too; current from here to destroy() */
	CUmodule module;
	CUfunction kernels[KERNEL_COUNT];
	cublasHandle_t blas;
	rondo_type precision; /* of the factors of products */
	CUstream tracks[2];
	CUevent passed[2]; /* the end of a track when the other joined it last */
	CUevent *moments; /* [moment_count] */
	int moment_count;
	struct slot slots[SLOTS];
	unsigned puts;
	void *landing; /* pinned memory, for gets */
	struct {
		void *memory;
		size_t size;
	} scratch[SCRATCH_COUNT];
};

/* ---- cuda_core.c: failures, launches, scratch ---- */

/* Records an error of the driver; true: no failure so far. `what` completes "cannot". */
bool gpu_check(struct gpu *gpu, CUresult result, const char *what);
bool gpu_check_blas(struct gpu *gpu, cublasStatus_t status, const char *what);

/* Queues a kernel, unless the device has failed or there are no blocks. */
void gpu_launch(struct gpu *gpu, enum kernel kernel, size_t blocks, void **parameters);
/* Blocks for a thread an element. */
size_t gpu_blocks(size_t threads);

/*
 * At least `size` bytes for one operation; NULL: it failed. Only the first and larger ones
 * allocate, so the first step does, before communication begins: see warm_up() in train.c.
 */
void *gpu_scratch(struct gpu *gpu, enum scratch scratch, size_t size);

/* ---- cuda_memory.c ---- */

bool gpu_memory_open(struct gpu *gpu);
/* After an open that failed, too. */
void gpu_memory_close(struct gpu *gpu);

int gpu_alloc(struct device *device, void **memory, size_t size);
void gpu_free(struct device *device, void *memory);
int gpu_reserve(struct device *device, size_t size);
void gpu_put(struct device *device, void *to, const void *from, size_t size);
int gpu_get(struct device *device, void *to, const void *from, size_t size);
void gpu_copy(struct device *device, void *to, const void *from, size_t size);
void gpu_clear(struct device *device, void *memory, size_t size);
int gpu_wait(struct device *device);

/* ---- cuda_tracks.c ---- */

bool gpu_tracks_open(struct gpu *gpu);
void gpu_tracks_close(struct gpu *gpu);
bool gpu_make_event(struct gpu *gpu, CUevent *event, unsigned flags);

int gpu_stream(struct device *device, rondo_stream **stream);
int gpu_join(struct device *device, enum track track);
int gpu_moments(struct device *device, int count);
void gpu_record(struct device *device, enum track track, int moment);
double gpu_between(struct device *device, int from, int to);

/* ---- cuda_product.c ---- */

int gpu_precision(struct device *device, rondo_type type);
void gpu_product(struct device *device, const struct product *product);

/* ---- cuda_rows.c ---- */

void gpu_spread(struct device *device, int rows, int columns, const float *row, float *out);
void gpu_column_sums(struct device *device, int rows, int columns, const float *in, float *sums);

/* Rows that a block adds up, of many. */
#define ROWS_A_PART 256
/* Parts of so many rows; at least one. */
int gpu_parts(int rows);
/* Blocks that share the columns of a part. */
size_t gpu_column_blocks(int columns);
/* sums[part][columns]: the sums of the rows of each part; `in` and `sums` do not overlap. */
void gpu_add_rows(
	struct gpu *gpu, int rows, int columns, int rows_a_part, const float *in, float *sums);

void gpu_add(struct device *device, size_t count, const float *a, const float *b, float *out);
void gpu_scale(struct device *device, size_t count, float factor, float *values);
void gpu_relu(struct device *device, size_t count, const float *in, float *out);
void gpu_relu_grad(struct device *device, size_t count, const float *out, const float *out_grad,
	float *in_grad);
void gpu_gelu(struct device *device, size_t count, const float *in, float *out);
void gpu_gelu_grad(struct device *device, size_t count, const float *in, const float *out_grad,
	float *in_grad);

/* ---- cuda_conv.c ---- */

void gpu_conv(struct device *device, const struct conv *conv, const float *in, const float *weight,
	const float *bias, float *out);
void gpu_conv_weight_grad(struct device *device, const struct conv *conv, const float *in,
	const float *out_grad, float *weight_grad, float *bias_grad);
void gpu_conv_in_grad(struct device *device, const struct conv *conv, const float *weight,
	const float *out_grad, float *in_grad);

/* ---- cuda_norm.c: batch norm and pooling ---- */

/* sums[2 * channels] of doubles: those of each channel, then 0. */
void gpu_plane_sums(struct gpu *gpu, const struct planes *shape, const float *in, double **sums);
void gpu_norm_sums(struct device *device, const struct norm *norm, const float *in, double *sums);
void gpu_norm_moments(struct device *device, const struct norm *norm, const double *sums,
	double count, float momentum, float *saved, float *running_mean, float *running_variance);
void gpu_norm_fixed(struct device *device, const struct norm *norm, const float *running_mean,
	const float *running_variance, float *saved);
void gpu_norm(struct device *device, const struct norm *norm, const float *in, const float *saved,
	const float *weight, const float *bias, float *out);
void gpu_norm_grad_sums(struct device *device, const struct norm *norm, const float *in,
	const float *out, const float *out_grad, const float *saved, double *sums);
void gpu_norm_weight_grad(struct device *device, const struct norm *norm, const double *sums,
	float *weight_grad, float *bias_grad);
void gpu_norm_in_grad(struct device *device, const struct norm *norm, const float *in,
	const float *out, const float *out_grad, const float *saved, const float *weight,
	const double *sums, double count, float *in_grad);
void gpu_max_pool(struct device *device, const struct planes *in_shape, const float *in, float *out,
	uint8_t *index);
void gpu_max_pool_grad(struct device *device, const struct planes *in_shape, const uint8_t *index,
	const float *out_grad, float *in_grad);

/* ---- cuda_text.c ---- */

void gpu_embed(struct device *device, const struct embedding *shape, const int32_t *tokens,
	const float *token_table, const float *position_table, float *out);
void gpu_embed_grad(struct device *device, const struct embedding *shape, const int32_t *tokens,
	const float *out_grad, float *token_grad, float *position_grad);
void gpu_layer_norm(struct device *device, const struct layer_norm *norm, const float *in,
	const float *weight, const float *bias, float *saved, float *out);
void gpu_layer_norm_grad(struct device *device, const struct layer_norm *norm, const float *in,
	const float *saved, const float *weight, const float *out_grad, float *in_grad,
	float *weight_grad, float *bias_grad);
void gpu_causal_softmax(struct device *device, int matrices, int size, float scale, float *scores);
void gpu_causal_softmax_grad(struct device *device, int matrices, int size, float scale,
	const float *probabilities, float *grad);

/* ---- cuda_optim.c: loss and optimizers ---- */

void gpu_loss(struct device *device, int rows, int columns, const float *logits,
	const int32_t *labels, double *sums);
void gpu_loss_grad(struct device *device, int rows, int columns, const float *logits,
	const int32_t *labels, float scale, float *grad);
void gpu_square_sum(struct device *device, size_t count, const float *values, double *sum);
void gpu_clip_factor(struct device *device, const double *square_sum, float max_norm, float unscale,
	float *factor);
void gpu_sgd(struct device *device, const struct sgd *sgd, size_t count, const float *grad,
	const float *factor, float *value, float *momentum);
void gpu_adam(struct device *device, const struct adam *adam, size_t count, const float *grad,
	const float *factor, float *value, float *mean, float *square);
void gpu_convert(struct device *device, size_t count, rondo_type from_type, const void *from,
	rondo_type to_type, void *to);

#endif
