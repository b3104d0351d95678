/*
 * A model: layers, their tensors, and the passes through them.
 *
 *     model_open(&model, device, &config);
 *     mlp_build(model, ...);             (networks.h)
 *     model_finish(model, seed);
 *     pass = &model->passes[0];
 *     model_forward(model, pass, inputs, batch, true);
 *     model_loss(model, pass, labels, sums);
 *     model_loss_grad(model, pass, labels, scale);
 *     model_backward(model, pass, inputs, NULL, ready, argument);
 *
 * A pass holds the outputs of one batch on its way forward and back. Pipelines have several at a
 * time. Gradients of outputs are needed in one backward alone; all passes share their memory.
 *
 * Inputs are [batch][model->in]: floats, or int32_t tokens. Every matrix is row-major, in the
 * device's memory. Operations are device.h's, so a failure may show later, in device_failure(). The
 * caller places the gradients: set tensor->grad of all parameters before the first backward, as
 * ddp_create() does.
 */
#ifndef TRAIN_MODEL_MODEL_H
#define TRAIN_MODEL_MODEL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "train/device/device.h"
#include "train/model/tensor.h"
#include "train/world/world.h"

struct layer;
struct model;

/* Called when the gradient of parameter `tensor` is final, in backward's order. */
typedef int model_ready(void *argument, int tensor);

/* Adds up values[count], in the device's memory, over ranks. */
typedef int model_sum(void *argument, double *values, size_t count);

struct model_config {
	int rows; /* rows of logits of a sample: 1, or one a token */
	int classes; /* columns of logits */
	int batch_max; /* samples that a pass has room for */
	int passes; /* 0: one */
	/* The ranks that share layers (tensor parallelism), each with a part of these; NULL: this
	   rank alone. They have the same samples. */
	const struct train_world *tensor_group;
	/* A stage of a pipeline: this model holds layers first_layer to last_layer - 1 of the
	   whole, counted where sequences alone hold them. 0, 0: all. */
	int first_layer, last_layer;
};

struct pass {
	float *activations; /* outputs, and values for backward */
	int batch; /* samples in it */
	int norm_batch; /* samples that batch norm's statistics cover */
	bool training;
	model_ready *ready;
	void *argument;
};

struct model {
	struct device *device;
	struct model_config config;
	struct layer *root; /* a sequence */
	int layer_count; /* where a pipeline may be cut: those of other stages included */
	struct tensors parameters, buffers;
	size_t activation_count; /* elements of pass->activations */
	size_t grad_count; /* elements of grads */
	size_t in, out; /* elements of a sample: this stage's input and output */
	struct pass *passes; /* [config.passes] */
	float *grads; /* [grad_count], of outputs */
	/* Batch norm over the samples of all ranks; NULL: over each rank's own. */
	model_sum *norm_sum;
	void *norm_argument;
	int norm_batch; /* of all ranks, in the next forward */
	/*
	 * Above 0: backward may take the step of plain SGD at this rate, value -= rate * gradient,
	 * instead of writing the gradient, and sets `stepped` of that parameter. Linear layers do:
	 * it saves memory accesses. For a caller that needs no gradients.
	 */
	float step_rate;
	int shared; /* the parameter of which another stage has a copy; -1: none */
	int error; /* of building */
};

/* title: the class in PyTorch. The device must outlive the model. */
int model_open(struct model **model, struct device *device, const struct model_config *config,
	const char *title);
/* After all layers were added: allocates memory, and draws the first values from the seed. */
int model_finish(struct model *model, uint64_t seed);
/* Accepts NULL. */
void model_destroy(struct model *model);
/* Prints it in PyTorch's format. */
void model_print(const struct model *model, FILE *out);
/* Elements of all parameters, without alignment. */
size_t model_parameter_count(const struct model *model);

/* The parameter of which another stage has a copy, or NULL. The caller adds up both gradients. */
const struct tensor *model_shared(const struct model *model);

/* Copies all parameters or buffers from and to the host's memory, [tensors->elements]. Reading
   waits for operations so far. */
int model_read(const struct model *model, const struct tensors *tensors, float *values);
void model_write(struct model *model, const struct tensors *tensors, const float *values);

/* Computes the output [batch][out]; model_output() returns it, valid until the pass's next
   forward. */
int model_forward(
	struct model *model, struct pass *pass, const void *inputs, int batch, bool training);
float *model_output(const struct model *model, const struct pass *pass);
/* The gradient of the output, which model_loss_grad() or the next stage fills in. */
float *model_output_grad(const struct model *model, const struct pass *pass);

/* Adds to sums[2] on the device the last forward's cross-entropies, and the number of its right
   guesses; labels [batch][rows]. */
void model_loss(
	const struct model *model, const struct pass *pass, const int32_t *labels, double *sums);
/* The gradient of `scale` times the sum of cross-entropies by the output. */
void model_loss_grad(struct model *model, struct pass *pass, const int32_t *labels, float scale);

/*
 * From the gradient of the output to those of the parameters, and to in_grad [batch][in] unless
 * that is NULL. Batch 0 gives zeros. Returns an error of `ready`.
 */
int model_backward(struct model *model, struct pass *pass, const void *inputs, float *in_grad,
	model_ready *ready, void *argument);

#endif
