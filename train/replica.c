#include "train/replica.h"

#include <stdlib.h>

#include "train/base/fail.h"
#include "train/parallel/running.h"
#include "train/parallel/tree.h"
#include "train/parallel/zero.h"
#include "train/parts.h"

/* Fails for options that contradict each other. */
static int check_options(const struct train *train)
{
	const struct options *options = &train->options;
	int size = train->groups->data.size;
	if (train->groups->replica.size > 1)
		return fail("--%s: not with --tensor or --pipeline",
			options->zero ? "zero" : "deterministic");
	if (!options->deterministic)
		return 0;
	if (options->sync_norm)
		return fail("--deterministic: a batch norm of shards has no --sync-bn");
	if (options->compress)
		return fail("--deterministic: its bits would depend on the ranks with --compress");
	if (!is_power_of_two(options->shards) || !is_power_of_two(size) || size > options->shards)
		return fail("--deterministic: runs on 1, 2, 4, ... --shards ranks, not on %d with "
			    "%d shards",
			size, options->shards);
	if (options->accumulate > options->shards / size)
		return fail("--accumulate %d: each of %d ranks has %d of the --shards already",
			options->accumulate, size, options->shards / size);
	return 0;
}

int replica_options(struct train *train)
{
	struct options *options = &train->options;
	int size = train->groups->data.size, err = 0;
	if (options->deterministic || options->zero)
		err = check_options(train);
	err = world_agree(train->world, err);
	if (err)
		return err;
	train->micro_batches =
		options->deterministic ? options->shards / size : options->accumulate;
	int parts = size * train->micro_batches;
	options->batch = (options->global_batch + parts - 1) / parts;
	train->micro_totals = calloc(train->micro_batches, sizeof(*train->micro_totals));
	train->parts = calloc(train->micro_batches, sizeof(*train->parts));
	if (!train->micro_totals || !train->parts)
		return fail("out of memory");
	return train->device->ops->alloc(train->device, (void **)&train->losses,
		2 * train->micro_batches * sizeof(*train->losses));
}

/* Counts a bucket's times, and draws in the trace its last gradient and its communication. */
static void note_times(void *argument, const struct bucket *bucket, double start_s,
	const struct bucket_times *times)
{
	struct train *train = argument;
	straggler_note(&train->straggler, times);
	trace_mark(train->trace, TRACE_COMPUTATION, "ready: bucket", bucket->number,
		start_s + times->ready_s);
	trace_span(train->trace, TRACE_COMMUNICATION, "bucket", bucket->number,
		start_s + times->launched_s, start_s + times->done_s);
}

int replica_create(struct train *train)
{
	const struct options *options = &train->options;
	const struct tensors *parameters = &train->model->parameters;
	struct ddp_config config = { .bucket_size = (size_t)(options->bucket_mb * (1 << 20)),
		.micro_batches = train->micro_batches,
		.no_overlap = options->no_overlap,
		.zero = options->zero,
		/* The norm's bits must not depend on the shards. */
		.whole_sums = options->deterministic &&
			      (options->clip > 0 || options->precision == PRECISION_F16),
		.deterministic = options->deterministic,
		.timed = note_times,
		.timed_argument = train };
	int err = 0;
	if (options->compress) {
		rondo_type type = options->compress == COMPRESS_F16 ? RONDO_F16 : RONDO_BF16;
		err = compression_create(
			&train->compression, train->device, parameters->elements, type);
		if (!err)
			config.hook = compression_hook(train->compression);
	}
	if (!err)
		err = ddp_create(
			&train->ddp, &train->groups->data, train->device, parameters, &config);
	if (!err && options->deterministic && train->model->buffers.count)
		err = running_create(&train->running, train->ddp, &train->model->buffers);
	return err;
}

void replica_destroy(struct train *train)
{
	running_destroy(train->running);
	ddp_destroy(train->ddp);
	compression_destroy(train->compression);
	free(train->parts);
	free(train->micro_totals);
	train->device->ops->free(train->device, train->losses);
}

void replica_report_buckets(struct train *train)
{
	struct ddp *ddp = train->ddp;
	double ms = ddp->timed_steps ? 1e3 / (double)ddp->timed_steps : 0;
	report_line(train->report, "%6s %10s %9s %9s %9s %9s  ms after backward began", "bucket",
		"KiB", "ready", "launched", "done", "exposed");
	for (int b = 0; b < ddp->bucket_count; b++) {
		struct bucket *bucket = &ddp->buckets[b];
		const struct bucket_times *sums = &bucket->sums;
		report_line(train->report, "%6d %10.1f %9.3f %9.3f %9.3f %9.3f", b,
			(double)bucket->count * sizeof(float) / 1024, ms * sums->ready_s,
			ms * sums->launched_s, ms * sums->done_s, ms * sums->exposed_s);
		bucket->sums = (struct bucket_times){ 0 };
	}
	ddp->timed_steps = 0;
}

int replica_report_straggler(struct train *train)
{
	int rank;
	double late_s;
	const struct train_world *world = &train->groups->data;
	if (!world->comm)
		return 0;
	int err =
		straggler_find(&train->straggler, world, train->ddp->bucket_count, &rank, &late_s);
	if (!err)
		report_line(train->report,
			"Step %lld: rank %d launches its buckets last, %.3f ms behind the first",
			(long long)train->step, rank, 1e3 * late_s);
	return err;
}

size_t replica_state_elements(const struct train *train)
{
	return train->options.zero ? zero_elements(train->ddp) : train->model->parameters.elements;
}

bool replica_steps_in_backward(const struct train *train)
{
	const struct options *options = &train->options;
	return train->groups->data.size == 1 && train->micro_batches == 1 && !train->pipeline &&
	       !options->deterministic && !options->zero && optimizer_is_plain(train->optimizer);
}

int replica_update(struct train *train, float rate)
{
	return train->options.zero ? zero_step(train->ddp, train->optimizer, rate)
				   : parts_update(train, rate);
}

float *replica_state(struct train *train, int number)
{
	return train->options.zero ? train->ddp->gradients : train->optimizer->state[number];
}

int replica_gather_state(struct train *train, int number)
{
	if (!train->options.zero)
		return 0;
	return zero_gather_state(train->ddp, train->optimizer, number);
}

void replica_take_state(struct train *train, int number)
{
	if (train->options.zero)
		zero_take_state(train->ddp, train->optimizer, number);
}

struct totals replica_sum(const struct totals *totals, int count)
{
	if (count == 1)
		return totals[0];
	struct totals first = replica_sum(totals, count / 2);
	struct totals rest = replica_sum(totals + count / 2, count - count / 2);
	return (struct totals){ first.loss + rest.loss, first.correct + rest.correct,
		first.count + rest.count };
}
