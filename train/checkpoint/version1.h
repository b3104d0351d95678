/* Checkpoints of version 1: a header of fixed size, one MLP's parameters, a checksum. */
#ifndef TRAIN_CHECKPOINT_VERSION1_H
#define TRAIN_CHECKPOINT_VERSION1_H

#include <stdbool.h>
#include <stdio.h>

#include "train/checkpoint/safetensors.h"

/* Whether the file begins as one. It is then at its beginning. */
bool version1_is(FILE *file);
/* Reads it: tensors without names, and texts as version 2 has them. */
int version1_read(const char *path, FILE *file, struct stored *stored);
/* Whether it was read by version1_read(). */
bool version1_is_stored(const struct stored *stored);

#endif
