/*
 * Uneven inputs: ranks with different numbers of batches (PyTorch: Join). A rank without a batch
 * takes part in the communication of the others, with zeros, until no rank has one.
 *
 *     do {
 *             struct batch batch = next_batch();           count 0: there are no more
 *             join_begin(join, batch.count);
 *             if (batch.count) {
 *                     model_forward(...);
 *                     model_loss_grad(..., 1);             the sum of losses, not scaled
 *                     model_backward(..., ddp_ready, ddp);
 *             }
 *             join_wait(join, &samples);                   of all ranks, in this step
 *             if (samples)
 *                     optimizer_step(...);
 *     } while (samples);
 *
 * Gradients are then means over the samples of the step. The ranks learn of each other's ends by a
 * sum of their counts. It travels on the stream before the buckets, while backward runs, and so
 * costs no step a round trip. It is a message of its own: a hook or config.zero may change
 * or scatter what is in buckets.
 */
#ifndef TRAIN_PARALLEL_JOIN_H
#define TRAIN_PARALLEL_JOIN_H

#include "train/parallel/ddp.h"

struct join;

int join_create(struct join **join, struct ddp *ddp);
/* After the last join_wait(). Accepts NULL. */
void join_destroy(struct join *join);

/* Instead of ddp_begin(): a step in which this rank has that many samples. With 0, all is done but
   join_wait(). */
int join_begin(struct join *join, size_t samples);
/* Instead of ddp_wait(). *samples: of all ranks; 0: no rank has any, and gradients are zero. On a
   GPU, waits for the communication. */
int join_wait(struct join *join, size_t *samples);

#endif
