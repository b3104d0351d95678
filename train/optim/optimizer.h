/* Stochastic gradient descent: each parameter moves against its gradient. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "train/model/model.h"

void optimizer_step(const struct model *model, float learning_rate);

#endif
