/* Texts of a checkpoint, which rank 0 has read, for all ranks. */
#ifndef TRAIN_CHECKPOINT_SHARE_H
#define TRAIN_CHECKPOINT_SHARE_H

#include "train/checkpoint/safetensors.h"
#include "train/world/world.h"

/* Collective. The other ranks' *stored, initialised, gets rank 0's texts; tensors stay there. */
int share_texts(const struct train_world *world, struct stored *stored);

#endif
