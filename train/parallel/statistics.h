/* Batch norm's statistics over ranks. Collective. */
#ifndef TRAIN_PARALLEL_STATISTICS_H
#define TRAIN_PARALLEL_STATISTICS_H

#include <stddef.h>

#include "train/model/model.h"
#include "train/world/world.h"

/*
 * Adds up the sums of a batch norm over all ranks, which makes it SyncBatchNorm: a model_sum, whose
 * argument is a struct ddp. It runs on ddp's stream, so that every rank has the same order of
 * communication; the computation waits for it, and for the buckets before it.
 */
int statistics_sum(void *ddp, double *values, size_t count);

/*
 * Copies rank 0's running statistics to all ranks. Training does not read them: it is enough before
 * an evaluation, and gives what PyTorch's broadcast_buffers gives.
 */
int statistics_broadcast(const struct train_world *world, struct model *model);

#endif
