/*
 * Buffers of a deterministic model: running statistics of batch norm. Each micro-batch moves them
 * from the values before the step. The step ends with the mean of these results, added up in the
 * ddp's tree. So bits do not depend on the number of ranks.
 *
 * A NULL running is off: all functions then do nothing.
 */
#ifndef TRAIN_PARALLEL_RUNNING_H
#define TRAIN_PARALLEL_RUNNING_H

#include "train/parallel/ddp.h"

struct running;

/* ddp is deterministic, and outlives it; so do the buffers. */
int running_create(struct running **running, struct ddp *ddp, const struct tensors *buffers);
/* Accepts NULL. */
void running_destroy(struct running *running);

/* Before the forward pass of a micro-batch: sets the buffers to their values before the step. */
void running_restore(struct running *running, int micro_batch);
/* After it. A micro-batch of 0 samples does not count. */
int running_add(struct running *running, int micro_batch, size_t samples);
/* After ddp_wait(). samples: of all ranks; they were dealt out to micro-batches one by one. */
int running_wait(struct running *running, size_t samples);

#endif
