/*
 * The model: a stack of layers over rows of floats, and their loss.
 *
 * Every matrix is row-major, in the device's memory; its shape stands beside its pointer.
 * Operations are device.h's, so a failure may show later, in device_failure(). The parameters of
 * all layers are in one buffer. The caller places the gradients: set tensors[].grad before the
 * first backward, as ddp_create() does.
 */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "train/device/device.h"

#define MODEL_LAYERS_MAX 16
#define MODEL_TENSORS_MAX 32

struct tensor {
	size_t count;
	float *value; /* [count], a view into model->parameters */
	float *grad; /* [count], a view into the caller's gradients */
};

struct layer_kind;

struct layer {
	const struct layer_kind *kind;
	int in, out;
	int weight; /* the tensor [out][in]; -1: the layer has none */
	int bias; /* the tensor [out]; -1: the layer has none */
	float *output; /* [batch][out] */
	float *output_grad; /* [batch][out] */
};

struct model {
	struct device *device;
	int in, classes;
	int batch_max; /* rows there is room for */
	int layer_count;
	struct layer layers[MODEL_LAYERS_MAX];
	int tensor_count;
	struct tensor tensors[MODEL_TENSORS_MAX];
	size_t parameter_count;
	float *parameters; /* [parameter_count] */
	float *activations; /* outputs and their gradients, layer by layer */
	double *sums; /* [2], of the loss: see device.h */
};

/* Called when the gradient of a tensor is final, in backward's order. */
typedef int model_ready(void *argument, int tensor);

/*
 * Linear layers from widths[0] to widths[1], ... with ReLU between them: { 784, 512, 512, 10 } is
 * the classifier of the PyTorch quickstart. The parameters are drawn from the seed, uniform within
 * 1 / sqrt(in) either side of zero, as PyTorch does. The device must outlive the model.
 */
int model_create(struct model **model, struct device *device, const int *widths, int width_count,
	int batch_max, uint64_t seed);
void model_destroy(struct model *model);
/* Prints it in PyTorch's format. */
void model_print(const struct model *model, FILE *out);

/* Copies all parameters from and to the host's memory. Reading waits for operations so far. */
int model_read(const struct model *model, float *parameters /* [parameter_count] */);
void model_write(struct model *model, const float *parameters /* [parameter_count] */);

/* The logits [batch][classes] of images [batch][in], valid until the next forward. */
const float *model_forward(struct model *model, const float *images, int batch);

/* The sum of the last forward's cross-entropies, and the number of its right guesses. Waits. */
int model_loss(const struct model *model, const int32_t *labels /* [batch] */, int batch,
	double *loss, int *correct);

/*
 * The gradient of `scale` times that sum, into tensors[].grad. batch 0 gives zeros. Returns an
 * error of `ready`.
 */
int model_backward(struct model *model, const float *images /* [batch][in] */,
	const int32_t *labels /* [batch] */, int batch, float scale, model_ready *ready,
	void *argument);

#endif
