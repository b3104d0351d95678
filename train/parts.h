/* The part of the model that this rank holds: tensor and pipeline parallelism. */
#ifndef TRAIN_PARTS_H
#define TRAIN_PARTS_H

#include "train/train.h"

/* Fails for options that need the whole model on each rank. */
int parts_options(const struct train *train);
/* Completes *config with this rank's stage and tensor group. */
int parts_config(
	const struct train *train, const struct samples *samples, struct model_config *config);
/* Creates train->pipeline if there are stages, and reports the division. */
int parts_create(struct train *train);

/* A step of the optimizer, of all gradients together. Collective over the replica. */
int parts_update(struct train *train, float rate);
/* Whether this rank's losses count: each is known to several ranks. */
bool parts_measures(const struct train *train);
/* Joins the hashes of a replica's parts. */
int parts_hash(const struct train *train, uint64_t *hash);

#endif
