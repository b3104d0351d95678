/* The operations of the CPU, by file. Each is the operation of that name in struct device_ops. */
#ifndef TRAIN_DEVICE_CPU_H
#define TRAIN_DEVICE_CPU_H

#include "train/device/device.h"

/*
 * cpu.c: room for count floats, until the next call for this device. Grows, and so allocates in the
 * first steps alone. NULL: out of memory, which device_failure() then returns.
 */
float *cpu_scratch(struct device *device, size_t count);

/* cpu_product.c */
void cpu_product(struct device *device, const struct product *product);

/* cpu_rows.c */
void cpu_spread(struct device *device, int rows, int columns, const float *row, float *out);
void cpu_column_sums(struct device *device, int rows, int columns, const float *in, float *sums);
void cpu_add(struct device *device, size_t count, const float *a, const float *b, float *out);
void cpu_scale(struct device *device, size_t count, float factor, float *values);
void cpu_relu(struct device *device, size_t count, const float *in, float *out);
void cpu_relu_grad(struct device *device, size_t count, const float *out, const float *out_grad,
	float *in_grad);

/* cpu_conv.c; shapes.h has the shapes */
void cpu_conv(struct device *device, const struct conv *conv, const float *in, const float *weight,
	const float *bias, float *out);
void cpu_conv_weight_grad(struct device *device, const struct conv *conv, const float *in,
	const float *out_grad, float *weight_grad, float *bias_grad);
void cpu_conv_in_grad(struct device *device, const struct conv *conv, const float *weight,
	const float *out_grad, float *in_grad);
/* cpu_norm.c */
void cpu_norm_sums(struct device *device, const struct norm *norm, const float *in, double *sums);
void cpu_norm_moments(struct device *device, const struct norm *norm, const double *sums,
	double count, float momentum, float *saved, float *running_mean, float *running_variance);
void cpu_norm_fixed(struct device *device, const struct norm *norm, const float *running_mean,
	const float *running_variance, float *saved);
void cpu_norm(struct device *device, const struct norm *norm, const float *in, const float *saved,
	const float *weight, const float *bias, float *out);
void cpu_norm_grad_sums(struct device *device, const struct norm *norm, const float *in,
	const float *out, const float *out_grad, const float *saved, double *sums);
void cpu_norm_weight_grad(struct device *device, const struct norm *norm, const double *sums,
	float *weight_grad, float *bias_grad);
void cpu_norm_in_grad(struct device *device, const struct norm *norm, const float *in,
	const float *out, const float *out_grad, const float *saved, const float *weight,
	const double *sums, double count, float *in_grad);

/* cpu_pool.c */
void cpu_max_pool(struct device *device, const struct planes *in_shape, const float *in, float *out,
	uint8_t *index);
void cpu_max_pool_grad(struct device *device, const struct planes *in_shape, const uint8_t *index,
	const float *out_grad, float *in_grad);
/* cpu_text.c */
void cpu_gelu(struct device *device, size_t count, const float *in, float *out);
void cpu_gelu_grad(struct device *device, size_t count, const float *in, const float *out_grad,
	float *in_grad);
void cpu_embed(struct device *device, const struct embedding *shape, const int32_t *tokens,
	const float *token_table, const float *position_table, float *out);
void cpu_embed_grad(struct device *device, const struct embedding *shape, const int32_t *tokens,
	const float *out_grad, float *token_grad, float *position_grad);
void cpu_layer_norm(struct device *device, const struct layer_norm *norm, const float *in,
	const float *weight, const float *bias, float *saved, float *out);
void cpu_layer_norm_grad(struct device *device, const struct layer_norm *norm, const float *in,
	const float *saved, const float *weight, const float *out_grad, float *in_grad,
	float *weight_grad, float *bias_grad);
void cpu_causal_softmax(struct device *device, int matrices, int size, float scale, float *scores);
void cpu_causal_softmax_grad(struct device *device, int matrices, int size, float scale,
	const float *probabilities, float *grad);

/* cpu_loss.c */
void cpu_loss(struct device *device, int rows, int columns, const float *logits,
	const int32_t *labels, double *sums);
void cpu_loss_grad(struct device *device, int rows, int columns, const float *logits,
	const int32_t *labels, float scale, float *grad);

/* cpu_convert.c */
void cpu_convert(struct device *device, size_t count, rondo_type from_type, const void *from,
	rondo_type to_type, void *to);

/* cpu_optim.c */
void cpu_square_sum(struct device *device, size_t count, const float *values, double *sum);
void cpu_clip_factor(struct device *device, const double *square_sum, float max_norm, float unscale,
	float *factor);
void cpu_sgd(struct device *device, const struct sgd *sgd, size_t count, const float *grad,
	const float *factor, float *value, float *momentum);
void cpu_adam(struct device *device, const struct adam *adam, size_t count, const float *grad,
	const float *factor, float *value, float *mean, float *square);

#endif
