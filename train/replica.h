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

/* Prints the mean times of each bucket since the last call. After ddp_times(). */
void replica_report_buckets(struct train *train);
/* Prints the rank for which the others wait, over the steps since the last call. Collective. */
int replica_report_straggler(struct train *train);

/* Elements of the optimizer's state on this rank. */
size_t replica_state_elements(const struct train *train);
/* Whether backward may take steps itself (model.h): if nothing is done to gradients between
   backward and the optimizer. */
bool replica_steps_in_backward(const struct train *train);
/* The optimizer's step, after ddp_wait(). */
int replica_update(struct train *train, float rate);
/* Memory on the device for a part of the state of all parameters, laid out as they are. */
float *replica_state(struct train *train, int number);
/* Fills that memory with all ranks' state, collective; or takes this rank's state from it. */
int replica_gather_state(struct train *train, int number);
void replica_take_state(struct train *train, int number);

/* The sum of totals[count], in a fixed order: a binary tree. */
struct totals replica_sum(const struct totals *totals, int count);

#endif
