/*
 * Gradients of micro-batches, added up tensor by tensor while backward goes on.
 *
 * Usually the first micro-batch writes ddp->gradients, and the later ones ddp->partial, which is
 * added. A deterministic ddp adds in a binary tree: micro-batches 0 and 1, 2 and 3, then both
 * pairs, and so on. Level l of ddp->partial holds the sum of 2^l micro-batches that waits for the
 * next 2^l.
 */
#ifndef TRAIN_PARALLEL_ACCUMULATE_H
#define TRAIN_PARALLEL_ACCUMULATE_H

#include "train/parallel/ddp.h"

/* Room of ddp->partial for config.micro_batches. */
int accumulate_levels(const struct ddp_config *config);
/* The place where this micro-batch's gradients lie: [parameters->elements]. */
float *accumulate_target(const struct ddp *ddp);
/* Adds what this micro-batch wrote at `offset` to earlier ones' sums. */
void accumulate(struct ddp *ddp, size_t offset, size_t count);

#endif
