/* The operations of the CPU, by file. Each is the operation of that name in struct device_ops. */
#ifndef TRAIN_DEVICE_CPU_H
#define TRAIN_DEVICE_CPU_H

#include "train/device/device.h"

/* cpu_rows.c */
void cpu_product(struct device *device, const struct product *product);
void cpu_spread(struct device *device, int rows, int columns, const float *row, float *out);
void cpu_column_sums(struct device *device, int rows, int columns, const float *in, float *sums);
void cpu_add(struct device *device, size_t count, const float *a, const float *b, float *out);
void cpu_scale(struct device *device, size_t count, float factor, float *values);
void cpu_relu(struct device *device, size_t count, const float *in, float *out);
void cpu_relu_grad(struct device *device, size_t count, const float *out, const float *out_grad,
	float *in_grad);

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
