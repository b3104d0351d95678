#include "train/parallel/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"

/* ---- Beginning and end ---- */

bool pipeline_is_first(const struct pipeline *pipeline)
{
	return pipeline->group->rank == 0;
}

bool pipeline_is_last(const struct pipeline *pipeline)
{
	return pipeline->group->rank == pipeline->group->size - 1;
}

/* A group of messages of device memory needs a stream. */
static int open_stream(struct pipeline *pipeline)
{
	int device = pipeline->model->device->number;
	int err = device < 0 ? 0 : rondo_stream_create_on(&pipeline->stream, device);
	return err ? fail_comm(err, "cannot start a stream") : 0;
}

static int allocate(struct pipeline *pipeline)
{
	struct model *model = pipeline->model;
	const struct device_ops *ops = model->device->ops;
	size_t size = model->config.batch_max * model->in * sizeof(float);
	int passes = model->config.passes, err = 0;
	pipeline->turns = calloc(2 * (size_t)pipeline->micro_batches, sizeof(*pipeline->turns));
	pipeline->inputs = calloc(passes, sizeof(*pipeline->inputs));
	if (!pipeline->turns || !pipeline->inputs)
		return fail("out of memory");
	if (pipeline_is_first(pipeline))
		return 0;
	for (int p = 0; !err && p < passes; p++)
		err = ops->alloc(model->device, (void **)&pipeline->inputs[p], size);
	return err ? err : ops->alloc(model->device, (void **)&pipeline->in_grad, size);
}

int pipeline_create(struct pipeline **out, const struct train_world *group,
	const struct train_world *ends, struct model *model, int micro_batches)
{
	struct pipeline *pipeline = calloc(1, sizeof(*pipeline));
	*out = NULL;
	if (!pipeline)
		return fail("out of memory");
	*pipeline = (struct pipeline){
		.group = group, .ends = ends, .model = model, .micro_batches = micro_batches
	};
	int err = allocate(pipeline);
	if (!err)
		err = open_stream(pipeline);
	if (err) {
		pipeline_destroy(pipeline);
		return err;
	}
	turns_of(group->rank, group->size, micro_batches, pipeline->turns);
	*out = pipeline;
	return 0;
}

void pipeline_destroy(struct pipeline *pipeline)
{
	if (!pipeline)
		return;
	struct device *device = pipeline->model->device;
	rondo_stream_destroy(pipeline->stream);
	for (int p = 0; pipeline->inputs && p < pipeline->model->config.passes; p++)
		device->ops->free(device, pipeline->inputs[p]);
	device->ops->free(device, pipeline->in_grad);
	free(pipeline->inputs);
	free(pipeline->turns);
	free(pipeline);
}

/* ---- Messages ---- */

static struct pass *pass_of(const struct pipeline *pipeline, int micro_batch)
{
	return &pipeline->model->passes[micro_batch % pipeline->model->config.passes];
}

static float *input_of(const struct pipeline *pipeline, int micro_batch)
{
	return pipeline->inputs[micro_batch % pipeline->model->config.passes];
}

/* Sends the result of a turn. */
static int send(const struct pipeline *pipeline, struct turn turn, size_t samples)
{
	const struct train_world *group = pipeline->group;
	const struct model *model = pipeline->model;
	if (turn.backward)
		return pipeline_is_first(pipeline)
			       ? 0
			       : rondo_send(group->comm, pipeline->in_grad, samples * model->in,
					 RONDO_F32, group->rank - 1, pipeline->stream);
	return pipeline_is_last(pipeline)
		       ? 0
		       : rondo_send(group->comm,
				 model_output(model, pass_of(pipeline, turn.micro_batch)),
				 samples * model->out, RONDO_F32, group->rank + 1,
				 pipeline->stream);
}

/* Receives what a turn reads. */
static int receive(const struct pipeline *pipeline, struct turn turn, size_t samples)
{
	const struct train_world *group = pipeline->group;
	const struct model *model = pipeline->model;
	if (turn.backward)
		return pipeline_is_last(pipeline)
			       ? 0
			       : rondo_recv(group->comm,
					 model_output_grad(
						 model, pass_of(pipeline, turn.micro_batch)),
					 samples * model->out, RONDO_F32, group->rank + 1,
					 pipeline->stream);
	return pipeline_is_first(pipeline)
		       ? 0
		       : rondo_recv(group->comm, input_of(pipeline, turn.micro_batch),
				 samples * model->in, RONDO_F32, group->rank - 1, pipeline->stream);
}

/* Sends the result of one turn while it receives what the next one reads. NULL: no such turn. */
static int exchange(const struct pipeline *pipeline, const struct micro_batch *parts,
	const struct turn *done, const struct turn *next)
{
	struct device *device = pipeline->model->device;
	size_t sent = done ? parts[done->micro_batch].count : 0;
	size_t received = next ? parts[next->micro_batch].count : 0;
	int err = device->ops->wait(device), ended;
	if (err)
		return err;
	err = rondo_group_start();
	if (!err && sent)
		err = send(pipeline, *done, sent);
	if (!err && received)
		err = receive(pipeline, *next, received);
	ended = rondo_group_end();
	if (!err)
		err = ended;
	if (!err && pipeline->stream)
		err = rondo_stream_synchronize(pipeline->stream);
	return err ? fail_comm(err, "exchange with the next stage of the pipeline") : 0;
}

/* ---- A step ---- */

static int forward(
	struct pipeline *pipeline, const struct micro_batch *part, int number, bool training)
{
	struct model *model = pipeline->model;
	struct pass *pass = pass_of(pipeline, number);
	const void *in = pipeline_is_first(pipeline) ? part->inputs : input_of(pipeline, number);
	model->norm_batch = part->total;
	int err = model_forward(model, pass, in, part->count, training);
	if (!err && pipeline_is_last(pipeline))
		model_loss(model, pass, part->labels, part->sums);
	return err;
}

static int ignore_ready(void *argument, int tensor)
{
	(void)argument, (void)tensor;
	return 0;
}

static int backward(struct pipeline *pipeline, const struct micro_batch *part, int number,
	float scale, struct ddp *ddp)
{
	struct model *model = pipeline->model;
	struct pass *pass = pass_of(pipeline, number);
	const void *in = pipeline_is_first(pipeline) ? part->inputs : input_of(pipeline, number);
	/* Without a ddp gradients are computed, and go no further. */
	int err = ddp ? ddp_begin(ddp, number, pipeline->micro_batches) : 0;
	if (err)
		return err;
	if (pipeline_is_last(pipeline))
		model_loss_grad(model, pass, part->labels, scale);
	return model_backward(
		model, pass, in, pipeline->in_grad, ddp ? ddp_ready : ignore_ready, ddp);
}

int pipeline_train(
	struct pipeline *pipeline, const struct micro_batch *parts, float scale, struct ddp *ddp)
{
	const struct turn *turns = pipeline->turns, *end = turns + 2 * pipeline->micro_batches;
	int err = exchange(pipeline, parts, NULL, turns);
	for (const struct turn *turn = turns; !err && turn < end; turn++) {
		const struct micro_batch *part = &parts[turn->micro_batch];
		err = turn->backward ? backward(pipeline, part, turn->micro_batch, scale, ddp)
				     : forward(pipeline, part, turn->micro_batch, true);
		if (!err)
			err = exchange(pipeline, parts, turn, turn + 1 < end ? turn + 1 : NULL);
	}
	return err;
}

int pipeline_warm_up(struct pipeline *pipeline, const struct micro_batch *part)
{
	int err = forward(pipeline, part, 0, true);
	return err ? err : backward(pipeline, part, 0, 0, NULL);
}

int pipeline_test(struct pipeline *pipeline, const struct micro_batch *parts)
{
	struct turn done, next = { .micro_batch = 0 };
	int err = exchange(pipeline, parts, NULL, &next);
	for (int m = 0; !err && m < pipeline->micro_batches; m++) {
		done = next;
		next.micro_batch++;
		err = forward(pipeline, &parts[m], m, false);
		if (!err)
			err = exchange(pipeline, parts, &done,
				next.micro_batch < pipeline->micro_batches ? &next : NULL);
	}
	return err;
}

int pipeline_sum_shared(struct pipeline *pipeline)
{
	const struct train_world *ends = pipeline->ends;
	struct model *model = pipeline->model;
	const struct tensor *shared = model_shared(model);
	if (!ends->comm || !shared)
		return 0;
	int err = model->device->ops->wait(model->device);
	if (err)
		return err;
	err = rondo_all_reduce(
		ends->comm, shared->grad, shared->grad, shared->count, RONDO_F32, RONDO_SUM, NULL);
	return err ? fail_comm(err, "sum of a gradient over first and last stage") : 0;
}

/* ---- Turns ---- */

int turns_passes(int stage, int stages, int micro_batches)
{
	int behind = stages - stage;
	return micro_batches < behind ? micro_batches : behind;
}

void turns_of(int stage, int stages, int micro_batches, struct turn *turns)
{
	int passes = turns_passes(stage, stages, micro_batches);
	int forward = 0, backward = 0;
	while (backward < micro_batches) {
		bool is_full = forward - backward == passes || forward == micro_batches;
		*turns++ = is_full ? (struct turn){ true, backward++ }
				   : (struct turn){ false, forward++ };
	}
}
