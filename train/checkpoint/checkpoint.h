/*
 * Checkpoints: a file that a run continues from. It is a file of safetensors.h: parameters and
 * buffers by their names, the optimizer's state as "optimizer.N/NAME", settings as texts.
 *
 * Saving keeps the file before as FILE.previous. A file is replaced at once, so a run that is
 * killed while it saves leaves two files that can be read, or one.
 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "train/checkpoint/safetensors.h"

/* Keys of texts; "option.NAME" are settings of the command line. */
#define CHECKPOINT_VERSION_KEY "rondo.version" /* CHECKPOINT_VERSION */
#define CHECKPOINT_EPOCHS_KEY "rondo.epochs" /* epochs done */
#define CHECKPOINT_SAMPLES_KEY "rondo.epoch_samples" /* done of the next epoch; none: 0 */
#define CHECKPOINT_STEP_KEY "rondo.step" /* the optimizer's steps */
#define CHECKPOINT_SCALE_KEY "rondo.loss_scale" /* its logarithm to base 2 */
#define CHECKPOINT_SCALE_STEPS_KEY "rondo.loss_scale_steps" /* good ones since it changed */

#define CHECKPOINT_VERSION "2"

/* Global batches below this are read from a file. */
#define CHECKPOINT_BATCH_MAX (1 << 24)

/* Fails where no checkpoint can be saved: the user learns it before an epoch, not after it. */
int checkpoint_writable(const char *path);

/* Whether there is FILE or FILE.previous, damaged or not. */
bool checkpoint_exists(const char *path);

/* Writes the file; the one before becomes FILE.previous. */
int checkpoint_save(const char *path, const struct stored *stored);
/*
 * Reads the file, or FILE.previous if the file is damaged or gone: *damage is then the reason, else
 * "". Fails if neither can be read, with the first one's reason.
 */
#define CHECKPOINT_REASON 512
int checkpoint_load(const char *path, struct stored *stored, char damage[CHECKPOINT_REASON]);

/* The number that a text has; fails unless it is from low to high. */
int checkpoint_number(const char *path, const struct stored *stored, const char *key, int64_t low,
	int64_t high, int64_t *number);

/*
 * Copies tensors named prefix + name to values[tensors->elements] on the host, laid out as the
 * model's. Fails, and names the tensor, if one is missing or has another shape.
 */
int checkpoint_restore(const char *path, const struct stored *stored, const char *prefix,
	const struct tensors *tensors, float *values);

#endif
