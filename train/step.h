/* The parts of a step that its beginning shares. */
#ifndef TRAIN_STEP_H
#define TRAIN_STEP_H

#include "train/train.h"

/* Cuts this rank's share of the step into its micro-batches, train->parts. */
void step_cut(struct train *train, const struct sampler *sampler, size_t step);
/* Forgets the losses so far. */
void step_clear(struct train *train);

#endif
