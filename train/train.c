#include "train/train.h"

#include <stdio.h>
#include <stdlib.h>

#include "train/base/clock.h"
#include "train/base/fail.h"
#include "train/parallel/same.h"
#include "train/parts.h"
#include "train/recovery.h"
#include "train/replica.h"
#include "train/resume.h"

static bool is_complete(const struct train *train)
{
	return train->epochs >= (uint64_t)train->options.epochs || train->step >= train->last_step;
}

bool train_done(const struct train *train)
{
	return train->stops || is_complete(train);
}

bool train_stopped(const struct train *train)
{
	return train->stops && !is_complete(train);
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

/* Steps of this epoch. After a death or SIGTERM the run continues within it. */
static size_t steps_done(const struct train *train)
{
	return (size_t)train->step - train->epochs * sampler_steps(train->train_sampler);
}

static size_t samples_done(const struct train *train)
{
	const struct sampler *sampler = train->train_sampler;
	size_t done = steps_done(train) * sampler->global_batch;
	return done < sampler->count ? done : sampler->count;
}

/* The steps since the last line of the epoch. */
struct interval {
	double start_s;
	size_t samples; /* of the epoch, before it */
	int64_t steps;
};

/* Prints their mean loss and their speed. */
static int report_interval(struct train *train, struct interval *interval)
{
	struct totals totals;
	size_t done = samples_done(train);
	int err = train_totals(train, &totals);
	if (err)
		return err;
	double now_s = clock_seconds();
	double speed = (double)(done - interval->samples) / (now_s - interval->start_s);
	report_loss(train->report, &totals, done, train->train_sampler->count, train->step, speed);
	metrics_step(train->metrics, train->step, done, &totals, speed);
	*interval = (struct interval){ .start_s = clock_seconds(), .samples = done };
	return 0;
}

/* A step, with all that is due after it. last: of this run in the epoch. */
static int run_step(struct train *train, size_t step, bool last, struct interval *interval)
{
	int err = train_step(train, step);
	if (!err && train->recovery)
		err = recovery_keep(train->recovery, train);
	if (!err)
		err = watch(train);
	if (!err && train->options.checkpoint)
		err = interrupt_check(&train->interrupt, train->world, train->step, &train->stops);
	if (err)
		return err;
	if (++interval->steps == train->options.report_every || last || train->stops)
		err = report_interval(train, interval);
	report_progress(train->report, samples_done(train), train->train_sampler->count);
	return err ? err : resume_saved(train, false);
}

/* Runs the steps of an epoch. */
static int train_steps(struct train *train)
{
	size_t first = steps_done(train), last = sampler_steps(train->train_sampler) - 1;
	int err = 0;
	if ((uint64_t)(train->last_step - train->step) < last - first + 1)
		last = first + (train->last_step - train->step) - 1;
	struct interval interval = { .start_s = clock_seconds(), .samples = samples_done(train) };
	step_clear(train);
	for (size_t step = first; !err && !train->stops && step <= last; step++)
		err = run_step(train, step, step == last, &interval);
	return err;
}

int train_epoch(struct train *train)
{
	struct totals totals;
	double busy_s, wait_s;
	struct sampler *sampler = train->train_sampler;
	report_epoch(train->report, train->epochs + 1, samples_done(train));
	metrics_epoch(train->metrics, train->epochs + 1, train->epochs * sampler->count);
	int err = train_steps(train);
	if (!err)
		err = train->device->ops->wait(train->device);
	if (!err)
		err = ddp_times(train->ddp, &busy_s, &wait_s);
	if (err)
		return err;
	report_speed(train->report, samples_done(train), busy_s, wait_s);
	if (train->loss_scale.on)
		report_line(train->report, "Loss scale: %g; steps skipped so far: %lld",
			train->loss_scale.value, (long long)train->loss_scale.skipped);
	if (train->options.bucket_report && train->ddp->stream)
		replica_report_buckets(train);
	if (samples_done(train) < sampler->count)
		return train->stops ? resume_save(train) : 0;
	err = train_test(train, &totals);
	if (err)
		return err;
	report_test(train->report, &totals);
	metrics_test(train->metrics, train->step, sampler->count, &totals);
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
	/* Launchers end all ranks soon after the first. */
	if (train_stopped(train))
		return world_agree(train->world, err);
	if (!err)
		err = resume_export(train);
	return err ? err : write_trace(train);
}
