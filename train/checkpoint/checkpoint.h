/*
 * Checkpoints: the state of training after an epoch, in a file that is written as a whole.
 *
 * The file: struct checkpoint, the parameters, and the FNV-1a hash of both. It is written under
 * another name, synced, and renamed, so a crash leaves the previous one. Numbers are in this
 * machine's byte order, which the magic number shows.
 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "train/model/model.h"

#define CHECKPOINT_MAGIC 0x6b63656863444e52u /* "RNDCheck" */
#define CHECKPOINT_VERSION 1
#define CHECKPOINT_TENSORS_MAX 32
#define CHECKPOINT_BATCH_MAX (1 << 24)

struct checkpoint {
	uint64_t magic;
	uint32_t version;
	uint32_t tensor_count;
	uint64_t epochs; /* epochs done */
	uint64_t seed;
	uint64_t global_batch;
	double learning_rate;
	double bucket_mb;
	uint64_t counts[CHECKPOINT_TENSORS_MAX]; /* [tensor_count], of each tensor */
	int32_t order[CHECKPOINT_TENSORS_MAX]; /* [tensor_count], ddp->order */
};

/* Fails where no checkpoint can be saved: the user learns it before an epoch, not after it. */
int checkpoint_writable(const char *path);

/* Fills in magic, version, tensor_count and counts. */
int checkpoint_save(const char *path, struct checkpoint *checkpoint, const struct model *model);
/* On success *parameters holds all tensors in order; the caller frees it. */
int checkpoint_load(const char *path, struct checkpoint *checkpoint, float **parameters);
/* Copies the parameters into a model of the same shape; fails for another shape. */
int checkpoint_restore(const char *path, const struct checkpoint *checkpoint,
	const float *parameters, struct model *model);

#endif
