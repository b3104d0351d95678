/*
 * Dynamic loss scaling for f16, with the defaults of PyTorch's torch.amp.GradScaler. (Micikevicius
 * et al., "Mixed precision training", 2018.)
 *
 * The loss is multiplied by a scale, so that small gradients do not become 0 in f16. If a gradient
 * overflows, the step is skipped and the scale halved; after 2000 steps without that it doubles.
 * Ranks decide alike, for an average of gradients with one that is not finite is not finite.
 */
#ifndef TRAIN_OPTIM_LOSS_SCALE_H
#define TRAIN_OPTIM_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "train/optim/optimizer.h"

struct loss_scale {
	bool on;
	float value; /* 1 where it is off */
	int good_steps; /* since the value changed */
	int64_t skipped; /* steps of this run */
};

void loss_scale_init(struct loss_scale *scale, bool on);
/* After a step whose gradients were finite, or not. Fails when no scale is left: 0. */
int loss_scale_update(struct loss_scale *scale, bool finite);

/* Call both around a step: the first gives the scale to the optimizer. The second waits for the
   step, and takes a skipped one back from the optimizer's count. Where it is off, neither does. */
void loss_scale_begin(const struct loss_scale *scale, struct optimizer *optimizer);
int loss_scale_end(struct loss_scale *scale, struct optimizer *optimizer);

#endif
