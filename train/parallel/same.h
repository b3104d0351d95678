/* Checks that all ranks hold the same model. */
#ifndef TRAIN_PARALLEL_SAME_H
#define TRAIN_PARALLEL_SAME_H

#include "train/model/tensor.h"
#include "train/world/world.h"

/*
 * Fails on all ranks if names, shapes or order of tensors differ. The reason names the first such
 * tensor and two ranks. One rank returns it, and the others RONDO_ABORTED: see world_agree().
 * Collective. Call it before ranks exchange values.
 */
int same_tensors(const struct train_world *world, const struct tensors *tensors);

#endif
