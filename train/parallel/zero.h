/*
 * A sharded optimizer: each rank holds the optimizer's state of its shards alone, and updates
 * these (Rajbhandari et al.: "ZeRO: Memory Optimizations Toward Training Trillion Parameter
 * Models", 2020, stage 1). Gradients are scattered to shards as they are summed, and parameters
 * gathered: as many bytes as an all-reduce. The gather of a bucket runs while the next is updated.
 *
 *     config.zero = true;
 *     ddp_create(&ddp, ..., &config);
 *     optimizer_create(&optimizer, device, &optimizer_config, zero_elements(ddp));
 *     zero_step(ddp, optimizer, rate);                 instead of optimizer_step()
 *
 * A rank has one shard of each bucket, and the state has these in the order of buckets.
 */
#ifndef TRAIN_PARALLEL_ZERO_H
#define TRAIN_PARALLEL_ZERO_H

#include "train/optim/optimizer.h"
#include "train/parallel/ddp.h"

/* Elements of this rank's shards. */
size_t zero_elements(const struct ddp *ddp);

/* After ddp_wait(). Later computation finds all parameters updated. Collective. */
int zero_step(struct ddp *ddp, struct optimizer *optimizer, float rate);

/*
 * A part of the state, as optimizer.h lays it out for all parameters: gathers it in ddp->gradients,
 * or takes this rank's shards from there. Between steps; the gradients are lost. The first is
 * collective.
 */
int zero_gather_state(struct ddp *ddp, const struct optimizer *optimizer, int number);
void zero_take_state(struct ddp *ddp, struct optimizer *optimizer, int number);

#endif
