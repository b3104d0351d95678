#include "train/train.h"

#include <stdio.h>
#include <stdlib.h>

#include "train/base/fail.h"
#include "train/parallel/same.h"
#include "train/parts.h"
#include "train/recovery.h"
#include "train/replica.h"
#include "train/resume.h"
#include "train/step.h"

#define REPORT_EVERY 100 /* steps */

bool train_done(const struct train *train)
{
	return train->epochs >= (uint64_t)train->options.epochs || train->step >= train->last_step;
}

/* The reports and checks that are due after this step. */
static int watch(struct train *train)
{
	const struct options *options = &train->options;
	uint64_t hash;
	int err = 0;
	if (options->stragglers && train->step % options->stragglers == 0)
		err = replica_report_straggler(train);
	if (!err && options->check_every && train->step % options->check_every == 0)
		err = train_hash(train, &hash);
	return err;
}

/* Runs the steps of an epoch, and prints the loss of every hundredth. *samples: trained on. */
static int train_steps(struct train *train, size_t *samples)
{
	struct sampler *sampler = train->train_sampler;
	/* After a death the run goes on within the epoch. */
	size_t first = (size_t)train->step - train->epochs * sampler_steps(sampler);
	size_t done = first * sampler->global_batch;
	if (done > sampler->count)
		done = sampler->count;
	for (size_t step = first; step < sampler_steps(sampler) && train->step < train->last_step;
		step++) {
		struct totals totals = { 0 };
		bool reports = step % REPORT_EVERY == 0;
		int err = train_step(train, step, reports ? &totals : NULL);
		if (!err && train->recovery)
			err = recovery_keep(train->recovery, train);
		if (!err && reports)
			err = step_sum(train, &totals);
		if (err)
			return err;
		size_t before = done;
		done += sampler_global_count(sampler, step);
		err = watch(train);
		if (err)
			return err;
		if (reports) {
			report_loss(train->report, &totals, before, sampler->count);
			metrics_step(train->metrics, step, before, done, &totals);
		}
		report_progress(train->report, done, sampler->count);
		err = resume_saved(train, false);
		if (err)
			return err;
	}
	*samples = done;
	return 0;
}

int train_epoch(struct train *train)
{
	struct totals totals;
	double busy_s, wait_s;
	struct sampler *sampler = train->train_sampler;
	size_t steps = sampler_steps(sampler), samples;
	report_epoch(train->report, train->epochs + 1);
	metrics_epoch(train->metrics, train->epochs + 1, train->epochs * steps,
		train->epochs * sampler->count);
	int err = train_steps(train, &samples);
	if (!err)
		err = train->device->ops->wait(train->device);
	if (!err)
		err = ddp_times(train->ddp, &busy_s, &wait_s);
	if (err)
		return err;
	report_speed(train->report, samples, busy_s, wait_s);
	if (train->loss_scale.on)
		report_line(train->report, "Loss scale: %g; steps skipped so far: %lld",
			train->loss_scale.value, (long long)train->loss_scale.skipped);
	if (train->options.bucket_report && train->ddp->stream)
		replica_report_buckets(train);
	metrics_trained(train->metrics, samples);
	if (samples < sampler->count)
		return 0;
	err = train_test(train, &totals);
	if (err)
		return err;
	report_test(train->report, &totals);
	metrics_test(train->metrics, steps, sampler->count, &totals);
	train->epochs++;
	return resume_save(train);
}

int train_hash(struct train *train, uint64_t *hash)
{
	char what[64];
	const struct tensors *tensors = &train->model->parameters;
	float *parameters = malloc(tensors->elements * sizeof(float));
	int err =
		parameters ? model_read(train->model, tensors, parameters) : fail("out of memory");
	snprintf(what, sizeof(what), "parameters after step %lld", (long long)train->step);
	if (!err)
		err = same_values(
			&train->groups->data, train->world->rank, tensors, parameters, what, hash);
	free(parameters);
	return err ? err : parts_hash(train, hash);
}

static int write_trace(struct train *train)
{
	struct trace_summary summary;
	char dropped[64] = "";
	if (!train->trace)
		return 0;
	int err = trace_write(train->trace, &summary);
	if (err || train->world->rank)
		return err;
	if (summary.dropped)
		snprintf(dropped, sizeof(dropped), "; %llu older events were dropped",
			(unsigned long long)summary.dropped);
	report_line(train->report, "Saved trace %s: %llu events, clocks within %.1f us%s",
		train->options.trace, (unsigned long long)summary.events, 1e6 * summary.error_s,
		dropped);
	return 0;
}

int train_finish(struct train *train)
{
	int err = resume_saved(train, true);
	if (!err)
		err = resume_export(train);
	return err ? err : write_trace(train);
}
