/* The replica of a model on this rank: how it shares the work of a step with the other ranks. */
#ifndef TRAIN_REPLICA_H
#define TRAIN_REPLICA_H

#include "train/train.h"

/* Completes and checks the options of data parallelism. Sets train->micro_batches. */
int replica_options(struct train *train);
/* Creates train->ddp, for the model and its options. */
int replica_create(struct train *train);
/* Destroys it. */
void replica_destroy(struct train *train);

/* The sum of totals[count], in a fixed order: a binary tree. */
struct totals replica_sum(const struct totals *totals, int count);

#endif
