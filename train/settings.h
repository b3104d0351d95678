/* Settings of a run that its checkpoint keeps, as texts "option.NAME". */
#ifndef TRAIN_SETTINGS_H
#define TRAIN_SETTINGS_H

#include "train/checkpoint/safetensors.h"
#include "train/options.h"

/* Adds the settings of a run, whose options are complete. */
int settings_store(const struct options *options, struct stored *stored);
/* Takes those that the command line does not give; their texts stay in *stored. path: for the
   reason of a failure. */
int settings_restore(struct options *options, const char *path, const struct stored *stored);

/*
 * The settings that all ranks must have alike, a line each, as the command line gives them: "--seed
 * 1". Fewer than `size` bytes; returns their number.
 */
size_t settings_list(const struct options *options, char *text, size_t size);
/* The optimizer's name. */
const char *settings_optimizer(const struct options *options);

#endif
