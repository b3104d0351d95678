#include "train/replica.h"

#include <stdlib.h>

#include "train/base/fail.h"

int replica_options(struct train *train)
{
	struct options *options = &train->options;
	int size = train->groups->data.size;
	train->micro_batches = options->accumulate;
	int parts = size * train->micro_batches;
	options->batch = (options->global_batch + parts - 1) / parts;
	train->micro_totals = calloc(train->micro_batches, sizeof(*train->micro_totals));
	train->parts = calloc(train->micro_batches, sizeof(*train->parts));
	return train->micro_totals && train->parts ? 0 : fail("out of memory");
}

/* Draws a bucket in the trace: its last gradient, and its communication. */
static void trace_bucket(void *argument, const struct bucket *bucket, double start_s,
	const struct bucket_times *times)
{
	trace_mark(argument, TRACE_COMPUTATION, "ready: bucket", bucket->number,
		start_s + times->ready_s);
	trace_span(argument, TRACE_COMMUNICATION, "bucket", bucket->number,
		start_s + times->launched_s, start_s + times->done_s);
}

int replica_create(struct train *train)
{
	const struct options *options = &train->options;
	const struct tensors *parameters = &train->model->parameters;
	struct ddp_config config = { .bucket_size = (size_t)(options->bucket_mb * (1 << 20)),
		.micro_batches = train->micro_batches,
		.no_overlap = options->no_overlap,
		.timed = train->trace ? trace_bucket : NULL,
		.timed_argument = train->trace };
	int err = 0;
	if (options->compress) {
		rondo_type type = options->compress == COMPRESS_F16 ? RONDO_F16 : RONDO_BF16;
		err = compression_create(
			&train->compression, train->device, parameters->elements, type);
		if (!err)
			config.hook = compression_hook(train->compression);
	}
	return err ? err
		   : ddp_create(
			     &train->ddp, &train->groups->data, train->device, parameters, &config);
}

void replica_destroy(struct train *train)
{
	ddp_destroy(train->ddp);
	compression_destroy(train->compression);
	free(train->parts);
	free(train->micro_totals);
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
