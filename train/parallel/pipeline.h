/*
 * Pipeline parallelism: each rank of a group is a stage, which holds some successive layers. A
 * step is cut into micro-batches. While a stage computes one, the stage before it computes the
 * next; see the turns below for the order. Outputs go to the next stage by rondo_send(), and their
 * gradients come back. A stage sends one micro-batch's result and receives the next one's input in
 * a group: so no order makes two stages wait for each other.
 *
 *     pipeline_create(&pipeline, &groups.pipeline, &groups.ends, model, 8);
 *     for each step:
 *             pipeline_train(pipeline, parts, scale, ddp);
 *             ddp_wait(ddp);
 *             pipeline_sum_shared(pipeline);
 *
 * All stages have the same samples. One thread uses a pipeline.
 */
#ifndef TRAIN_PARALLEL_PIPELINE_H
#define TRAIN_PARALLEL_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "train/model/model.h"
#include "train/parallel/ddp.h"
#include "train/parallel/pipeline.h"
#include "train/world/world.h"

/*
 * The turns of a stage of a pipeline: the order in which it takes the micro-batches of a step.
 *
 * 1F1B (Narayanan et al.: "PipeDream", 2019; here with a flush at the end of each step): a stage
 * begins with as many forward as there are stages behind it, then alternates. So it holds at most
 * as many micro-batches at a time as there are stages.
 */

struct turn {
	bool backward;
	int micro_batch;
};

/* Writes turns[2 * micro_batches]. Micro-batches go back in the order in which they came. */
void turns_of(int stage, int stages, int micro_batches, struct turn *turns);
/* Micro-batches between forward and backward at a time, at most. */
int turns_passes(int stage, int stages, int micro_batches);

struct micro_batch {
	const void *inputs; /* on the device; the first stage reads them */
	const int32_t *labels; /* likewise, the last stage */
	int count; /* samples, 0 possibly */
	int total; /* samples of all replicas in their micro-batches of this number */
	double *sums; /* on the device: the last stage adds its losses there (model_loss()) */
};

struct pipeline {
	const struct train_world *group; /* a rank is a stage */
	const struct train_world *ends;
	struct model *model; /* with turns_passes() passes */
	int micro_batches; /* of a step */
	struct turn *turns; /* [2 * micro_batches] */
	rondo_stream *stream; /* of messages between devices; NULL: on the host */
	float **inputs; /* [passes][batch_max * model->in]: received; the first stage has none */
	float *in_grad; /* [batch_max * model->in], likewise */
};

/* The groups and the model outlive the pipeline. On failure *pipeline is NULL. */
int pipeline_create(struct pipeline **pipeline, const struct train_world *group,
	const struct train_world *ends, struct model *model, int micro_batches);
/* Accepts NULL. */
void pipeline_destroy(struct pipeline *pipeline);

bool pipeline_is_first(const struct pipeline *pipeline);
bool pipeline_is_last(const struct pipeline *pipeline);

/*
 * Forward and backward of all micro-batches, with losses. scale: of their sum. Gradients add up in
 * the ddp, of this stage's data group. Collective over the group.
 */
int pipeline_train(
	struct pipeline *pipeline, const struct micro_batch *parts, float scale, struct ddp *ddp);
/* Forward and backward of this stage alone, without messages: see warm_up() in setup.c. */
int pipeline_warm_up(struct pipeline *pipeline, const struct micro_batch *part);
/* Forward alone, for evaluation, with losses. Likewise collective. */
int pipeline_test(struct pipeline *pipeline, const struct micro_batch *parts);
/* Adds up the gradient of the tensor that the first and the last stage both have, if there is one.
   Call it after ddp_wait(). Collective over the ends. */
int pipeline_sum_shared(struct pipeline *pipeline);

#endif
