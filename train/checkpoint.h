/*
 * Checkpoints: where training stands after an epoch, in a file that is there whole or not at all.
 *
 * The file: struct checkpoint, the parameters, and the FNV-1a hash of both. It is written under
 * another name, synced, and renamed, so a crash leaves the previous one. Numbers are in this
 * machine's byte order; the magic number tells.
 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "model.h"

#define CHECKPOINT_MAGIC 0x6b63656863444e52u /* "RNDCheck" */
#define CHECKPOINT_VERSION 1
#define CHECKPOINT_BATCH_MAX (1 << 24)

struct checkpoint {
	uint64_t magic;
	uint32_t version;
	uint32_t tensor_count;
	uint64_t epochs; /* done so far */
	uint64_t seed;
	uint64_t global_batch;
	double learning_rate;
	double bucket_mb;
	uint64_t counts[MODEL_TENSORS_MAX]; /* [tensor_count], of each tensor */
	int32_t order[MODEL_TENSORS_MAX]; /* [tensor_count], ddp->order */
};

/* Whether a checkpoint could be saved there: to be told before an epoch is trained, not after it.
 */
int checkpoint_writable(const char *path);

/* Fills in magic, version, tensor_count and counts. */
int checkpoint_save(const char *path, struct checkpoint *checkpoint, const struct model *model);
/* On success *parameters, all tensors one after the other, is the caller's to free(). */
int checkpoint_load(const char *path, struct checkpoint *checkpoint, float **parameters);
/* Puts the parameters into a model of the same shape; refuses another. */
int checkpoint_restore(const char *path, const struct checkpoint *checkpoint,
	const float *parameters, struct model *model);

#endif
