/*
 * Optimizers, as torch.optim defines them, on flat ranges of parameters.
 *
 *     optimizer_begin(optimizer);
 *     optimizer_measure(optimizer, count, grad);       each gradient; where optimizer_measures()
 *     (ranks that hold parts add up optimizer->square_sum)
 *     optimizer_clip(optimizer);                       likewise
 *     optimizer_update(optimizer, rate, offset, count, grad, value);
 *
 * optimizer_step() does all of it for a rank that holds every parameter. Operations are device.h's.
 */
#ifndef TRAIN_OPTIM_OPTIMIZER_H
#define TRAIN_OPTIM_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/device/device.h"
#include "train/model/tensor.h"

struct optimizer_config {
	enum optimizer_kind kind;
	float momentum; /* SGD's; 0: none */
	bool nesterov;
	float weight_decay;
	float beta1, beta2, epsilon; /* Adam's */
	float max_norm; /* of all gradients together, which are else scaled down; 0: no limit */
};

/* PyTorch's defaults of this kind. */
struct optimizer_config optimizer_defaults(enum optimizer_kind kind);

struct optimizer {
	struct device *device;
	struct optimizer_config config;
	size_t elements; /* room of the state: parameters that this rank updates */
	int state_count; /* 0 to 2 */
	float *state[2]; /* [elements]: the momentum buffer, or Adam's mean and square */
	int64_t step; /* of the update under way, or the last one; from 1 */
	double *square_sum; /* in the device's memory: of the gradients measured in this step */
	float *factor; /* likewise: of all gradients; used where `scaled` */
	bool scaled; /* optimizer_clip() was called in this step */
	/* Gradients are those of the loss times this. Updates divide by it, and do nothing if a
	   gradient is not finite. 0: neither. */
	float loss_scale;
};

/* State is zero, and step 0. A resumed run sets both. */
int optimizer_create(struct optimizer **optimizer, struct device *device,
	const struct optimizer_config *config, size_t elements);
/* Accepts NULL. */
void optimizer_destroy(struct optimizer *optimizer);

void optimizer_begin(struct optimizer *optimizer);
/* Whether the step needs optimizer_measure() and optimizer_clip(). */
bool optimizer_measures(const struct optimizer *optimizer);
/* Whether the step is value -= rate * grad, which needs nothing but its own gradient. */
bool optimizer_is_plain(const struct optimizer *optimizer);
/* Adds the squares of these gradients to *square_sum. */
void optimizer_measure(struct optimizer *optimizer, size_t count, const float *grad);
/* Limits the norm of the gradients. A sum that is not finite makes the update do nothing. */
void optimizer_clip(struct optimizer *optimizer);
/* Updates value[count]. offset: where their state begins. */
void optimizer_update(struct optimizer *optimizer, float rate, size_t offset, size_t count,
	const float *grad, float *value);

/* Updates all parameters that backward left, whose state lies as their values do. */
void optimizer_apply(struct optimizer *optimizer, const struct tensors *parameters, float rate);
/* One step of them. */
void optimizer_step(struct optimizer *optimizer, const struct tensors *parameters, float rate);

#endif
