#include "train/metrics/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "train/base/fail.h"
#include "train/metrics/sink.h"

struct metrics {
	struct sink sinks[METRICS_FILES_MAX]; /* [count] */
	int count;
	uint64_t epoch, first_sample; /* the epoch under way, and the samples before it */
};

static int open_all(struct metrics *metrics, const struct metrics_files *files,
	const struct metrics_start *start)
{
	int err = 0;
	for (int i = 0; !err && i < files->count; i++) {
		err = sink_open(&metrics->sinks[metrics->count], files->paths[i], start);
		metrics->count += !err;
	}
	return err;
}

int metrics_create(
	struct metrics **out, const struct metrics_files *files, const struct metrics_start *start)
{
	*out = NULL;
	if (!files->count)
		return 0;
	struct metrics *metrics = calloc(1, sizeof(*metrics));
	if (!metrics)
		return fail("out of memory for metrics");
	int err = open_all(metrics, files, start);
	if (err)
		metrics_destroy(metrics);
	else
		*out = metrics;
	return err;
}

void metrics_destroy(struct metrics *metrics)
{
	if (!metrics)
		return;
	for (int i = 0; i < metrics->count; i++)
		sink_close(&metrics->sinks[i]);
	free(metrics);
}

static double unix_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void write_row(struct metrics *metrics, struct metrics_row *row, uint64_t step,
	uint64_t samples, const struct totals *totals)
{
	row->epoch = metrics->epoch;
	row->step = step;
	row->sample_count = metrics->first_sample + samples;
	row->loss = totals->loss / totals->count;
	row->accuracy = totals->correct / totals->count;
	row->time_s = unix_seconds();
	for (int i = 0; i < metrics->count; i++) {
		struct sink *sink = &metrics->sinks[i];
		if (sink->fd >= 0 && sink_write(sink, row))
			fprintf(stderr, "rondo-train: %s; training continues without this file\n",
				failure());
	}
}

void metrics_epoch(struct metrics *metrics, uint64_t epoch, uint64_t sample_count)
{
	if (!metrics)
		return;
	metrics->epoch = epoch;
	metrics->first_sample = sample_count;
}

void metrics_step(struct metrics *metrics, uint64_t step, uint64_t samples,
	const struct totals *totals, double speed)
{
	struct metrics_row row = { .sample_tp = speed };
	if (metrics)
		write_row(metrics, &row, step, samples, totals);
}

void metrics_test(
	struct metrics *metrics, uint64_t step, uint64_t samples, const struct totals *totals)
{
	struct metrics_row row = { .test = true, .sample_tp = NAN };
	if (metrics)
		write_row(metrics, &row, step, samples, totals);
}
