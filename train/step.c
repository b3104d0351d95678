#include "train/train.h"

#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/parallel/statistics.h"
#include "train/parts.h"
#include "train/replica.h"

/* Cuts this rank's share of the step into its micro-batches. */
void step_cut(struct train *train, const struct sampler *sampler, size_t step)
{
	const struct data *data = train->train_data;
	const char *inputs = train->inputs;
	const int32_t *labels = train->labels;
	for (int m = 0; m < train->micro_batches; m++) {
		int count = sampler_part_count(sampler, step, m);
		train->parts[m] =
			(struct micro_batch){ .total = (int)sampler_part_total(sampler, step, m),
				.inputs = inputs,
				.labels = labels,
				.sums = &train->losses[2 * (size_t)m],
				.count = count };
		inputs += count * data->input_count * sizeof(float);
		labels += count * data->label_count;
	}
}

/* Takes this rank's share of a step, and puts it on the device. */
static int take_batch(struct train *train, struct feed *feed, size_t step)
{
	const struct device_ops *ops = train->device->ops;
	const struct data *data = train->train_data;
	struct batch batch;
	trace_begin(train->trace, TRACE_DATA, "loader");
	int err = loader_take(feed->loader, train->epochs, step, &batch);
	trace_end(train->trace, TRACE_DATA);
	if (err)
		return err;
	if (train->device->number < 0) {
		train->inputs = batch.inputs;
		train->labels = batch.labels;
		return 0;
	}
	ops->put(train->device, train->inputs, batch.inputs,
		batch.count * data->input_count * sizeof(float));
	ops->put(train->device, train->labels, batch.labels,
		batch.count * data->label_count * sizeof(*train->labels));
	return 0;
}

/* Runs a micro-batch forward, and adds up its losses. */
static int forward(struct train *train, const struct micro_batch *part, bool training)
{
	struct pass *pass = train->model->passes;
	trace_begin(train->trace, TRACE_COMPUTATION, "forward");
	train->model->norm_batch = part->total;
	int err = model_forward(train->model, pass, part->inputs, part->count, training);
	if (!err)
		model_loss(train->model, pass, part->labels, part->sums);
	trace_end(train->trace, TRACE_COMPUTATION);
	return err;
}

/* scale: of the sum of losses. */
static int backward(struct train *train, const struct micro_batch *part, float scale)
{
	struct pass *pass = train->model->passes;
	trace_begin(train->trace, TRACE_COMPUTATION, "backward");
	model_loss_grad(train->model, pass, part->labels, scale);
	int err = model_backward(train->model, pass, part->inputs, NULL, ddp_ready, train->ddp);
	trace_end(train->trace, TRACE_COMPUTATION);
	return err;
}

/* Forward and backward of the micro-batches. */
static int run_share(struct train *train, float scale)
{
	int err = 0;
	if (train->pipeline) {
		trace_begin(train->trace, TRACE_COMPUTATION, "pipeline");
		err = pipeline_train(train->pipeline, train->parts, scale, train->ddp);
		trace_end(train->trace, TRACE_COMPUTATION);
		return err;
	}
	for (int m = 0; !err && m < train->micro_batches; m++) {
		running_restore(train->running, m);
		err = forward(train, &train->parts[m], true);
		if (!err)
			err = running_add(train->running, m, train->parts[m].count);
		if (!err)
			err = ddp_begin(train->ddp, m, train->micro_batches);
		if (!err)
			err = backward(train, &train->parts[m], scale);
	}
	return err;
}

/* Forward alone, with losses. */
static int test_share(struct train *train)
{
	int err = 0;
	if (train->pipeline)
		return pipeline_test(train->pipeline, train->parts);
	for (int m = 0; !err && m < train->micro_batches; m++)
		err = forward(train, &train->parts[m], false);
	return err;
}

/* The labels of the micro-batches, whose losses the device adds up. */
static void count_labels(struct train *train)
{
	for (int m = 0; m < train->micro_batches; m++)
		train->micro_totals[m].count +=
			(double)train->parts[m].count * train->train_data->label_count;
}

static size_t losses_size(const struct train *train)
{
	return 2 * train->micro_batches * sizeof(*train->losses);
}

void step_clear(struct train *train)
{
	memset(train->micro_totals, 0, train->micro_batches * sizeof(*train->micro_totals));
	train->device->ops->clear(train->device, train->losses, losses_size(train));
}

/* This rank's part. */
static int read_totals(struct train *train, struct totals *totals)
{
	double *losses = malloc(losses_size(train));
	int err = losses ? train->device->ops->get(
				   train->device, losses, train->losses, losses_size(train))
			 : fail("out of memory for %d losses", train->micro_batches);
	for (int m = 0; !err && m < train->micro_batches; m++) {
		train->micro_totals[m].loss = losses[2 * m];
		train->micro_totals[m].correct = losses[2 * m + 1];
	}
	free(losses);
	*totals = (struct totals){ 0 };
	if (!err && parts_measures(train))
		*totals = replica_sum(train->micro_totals, train->micro_batches);
	return err;
}

int train_totals(struct train *train, struct totals *totals)
{
	int err = read_totals(train, totals);
	double sums[3] = { totals->loss, totals->correct, totals->count };
	step_clear(train);
	if (!err)
		err = world_sum(train->world, sums, 3);
	*totals = (struct totals){ sums[0], sums[1], sums[2] };
	return err;
}

int train_step(struct train *train, size_t step)
{
	const struct sampler *sampler = train->train_sampler;
	/* The sum over ranks is then the mean over the labels of the step. */
	float scale =
		1 / (float)(sampler_global_count(sampler, step) * train->train_data->label_count);
	float rate = (float)schedule_rate(&train->schedule, train->step++);
	int err = take_batch(train, &train->train_feed, step);
	loss_scale_begin(&train->loss_scale, train->optimizer);
	train->model->step_rate = replica_steps_in_backward(train) ? rate : 0;
	step_cut(train, sampler, step);
	if (!err)
		err = run_share(train, scale * train->loss_scale.value);
	count_labels(train);
	trace_begin(train->trace, TRACE_COMPUTATION, "wait for buckets");
	if (!err)
		err = ddp_wait(train->ddp);
	if (!err)
		err = running_wait(train->running, sampler_global_count(sampler, step));
	trace_end(train->trace, TRACE_COMPUTATION);
	trace_begin(train->trace, TRACE_COMPUTATION, "optimizer");
	if (!err)
		err = replica_update(train, rate);
	if (!err)
		err = loss_scale_end(&train->loss_scale, train->optimizer);
	trace_end(train->trace, TRACE_COMPUTATION);
	return err ? err : device_failure(train->device);
}

int train_test(struct train *train, struct totals *totals)
{
	struct sampler *sampler = train->test_sampler;
	int err = statistics_broadcast(&train->groups->data, train->model);
	step_clear(train);
	for (size_t step = 0; !err && step < sampler_steps(sampler); step++) {
		err = take_batch(train, &train->test_feed, step);
		step_cut(train, sampler, step);
		if (!err)
			err = test_share(train);
		count_labels(train);
	}
	return err ? err : train_totals(train, totals);
}
