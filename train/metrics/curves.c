#include "train/metrics/curves.h"

#include <stdlib.h>
#include <string.h>

#include <rondo.h>

#include "plot.h"
#include "train/base/fail.h"
#include "train/metrics/rows.h"

#define POINTS_MOST 400 /* of a curve: more are averaged, as a picture shows no more */
#define GREY (PLOT_COLOURS - 1)

enum value { LOSS, ACCURACY, THROUGHPUT, VALUES };

/* Points of one curve. */
struct points {
	double *x, *y; /* [count] */
	size_t count;
};

struct run {
	const char *label;
	struct metrics_rows rows;
	struct points points[VALUES][2]; /* of training, and of the test */
};

static double value_of(const struct metrics_row *row, enum value value)
{
	return value == LOSS ? row->loss : value == ACCURACY ? 100 * row->accuracy : row->sample_tp;
}

static size_t count_rows(const struct metrics_rows *rows, bool test)
{
	size_t count = 0;
	for (size_t i = 0; i < rows->count; i++)
		count += rows->rows[i].test == test;
	return count;
}

/* Means of `width` consecutive rows of training, or of tests; the last may be of fewer. */
static int collect(
	const struct metrics_rows *rows, bool test, enum value value, struct points *points)
{
	size_t total = count_rows(rows, test);
	size_t width = (total + POINTS_MOST - 1) / POINTS_MOST, taken = 0;
	points->x = calloc(2 * (total + 1), sizeof(*points->x));
	if (!points->x)
		return fail("out of memory for %zu points", total);
	points->y = points->x + total + 1;
	for (size_t i = 0; i < rows->count; i++) {
		const struct metrics_row *row = &rows->rows[i];
		if (row->test != test)
			continue;
		points->x[points->count] += (double)row->sample_count;
		points->y[points->count] += value_of(row, value);
		taken++;
		if (taken % width && taken < total)
			continue;
		double rest = (double)(taken % width ? taken % width : width);
		points->x[points->count] /= rest;
		points->y[points->count++] /= rest;
	}
	return 0;
}

/* The file's name without its directory, unless another run has the same. */
static const char *label_of(const char *const paths[], int count, int run)
{
	const char *slash = strrchr(paths[run], '/'), *label = slash ? slash + 1 : paths[run];
	for (int i = 0; i < count; i++) {
		const char *other = strrchr(paths[i], '/');
		if (i != run && !strcmp(label, other ? other + 1 : paths[i]))
			return paths[run];
	}
	return label;
}

static int load(struct run *run, const char *path)
{
	int err = metrics_rows_load(&run->rows, path);
	if (!err && !run->rows.count)
		err = fail("%s: has no rows", path);
	for (int value = 0; !err && value < VALUES; value++)
		for (int test = 0; !err && test < 2; test++)
			err = collect(&run->rows, test, value, &run->points[value][test]);
	return err;
}

/* Curves of each run, training before tests, and two entries of the legend. */
static size_t add_series(
	struct plot_series *series, const struct run *runs, int count, enum value value)
{
	size_t added = 0;
	for (int run = 0; run < count; run++)
		for (int test = 0; test < (value == THROUGHPUT ? 1 : 2); test++) {
			const struct points *points = &runs[run].points[value][test];
			series[added++] = (struct plot_series){ runs[run].label, run % GREY, test,
				points->count, points->x, points->y };
		}
	if (value != THROUGHPUT) {
		series[added++] = (struct plot_series){ .label = "training", .colour = GREY };
		series[added++] =
			(struct plot_series){ .label = "test", .colour = GREY, .dashed = true };
	}
	return added;
}

static void draw(FILE *out, const struct run *runs, int count)
{
	static const struct plot_axis samples = { "samples", PLOT_LINEAR };
	struct plot_panel panels[VALUES] = {
		[LOSS] = { "Loss", samples, { "mean loss", PLOT_LINEAR }, NULL, 0 },
		[ACCURACY] = { "Accuracy", samples, { "accuracy (%)", PLOT_LINEAR }, NULL, 0 },
		[THROUGHPUT] = { "Throughput", samples, { "samples per second", PLOT_FROM_ZERO },
			NULL, 0 },
	};
	struct plot_series series[VALUES][2 * CURVES_RUNS_MAX + 2];
	char title[64];
	for (int value = 0; value < VALUES; value++) {
		panels[value].series = series[value];
		panels[value].series_count = add_series(series[value], runs, count, value);
	}
	snprintf(title, sizeof(title), "Training, rondo-train %s", rondo_version());
	plot_write(out, title, panels, VALUES, VALUES);
}

int curves_draw(FILE *out, const char *const paths[], int count)
{
	struct run runs[CURVES_RUNS_MAX] = { 0 };
	int err = 0;
	if (count > CURVES_RUNS_MAX)
		return fail("%d files: a picture shows at most %d runs", count, CURVES_RUNS_MAX);
	for (int i = 0; !err && i < count; i++) {
		runs[i].label = label_of(paths, count, i);
		err = load(&runs[i], paths[i]);
	}
	if (!err)
		draw(out, runs, count);
	for (int i = 0; i < count; i++) {
		metrics_rows_finish(&runs[i].rows);
		for (int value = 0; value < VALUES; value++)
			for (int test = 0; test < 2; test++)
				free(runs[i].points[value][test].x);
	}
	return err;
}
