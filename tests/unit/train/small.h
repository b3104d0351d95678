/* Small models for tests, on the CPU. */
#ifndef TRAIN_SMALL_H
#define TRAIN_SMALL_H

#include "train/model/model.h"

/* Linear layers of these widths, with ReLU between them. */
struct model *small_model(
	struct device *cpu, const int *widths, int width_count, int batch_max, uint64_t seed);
/* Places all gradients in the memory gradients[model->parameters.elements], as the parameters. */
void small_place(struct model *model, float *gradients);
/* All parameters, or all values laid out as they are, without the room between tensors. */
void small_dense(const struct model *model, const float *values, float *dense);
/* Forward in pass 0. */
void small_forward(struct model *model, const void *inputs, int batch);
/* The loss of pass 0; backward from `scale` times it. */
double small_loss(struct model *model, const int32_t *labels, int *correct);
int small_backward(struct model *model, const void *inputs, const int32_t *labels, float scale,
	model_ready *ready, void *argument);
/* A model_ready that does nothing. */
int small_ready(void *argument, int tensor);

#endif
