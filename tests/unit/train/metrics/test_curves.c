/* rondo-train plot. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/metrics/curves.h"
#include "train/metrics/row.h"
#include "train/plot.h"
#include "train/scratch.h"

TestSuite(curves, .init = scratch_make, .fini = scratch_remove, .timeout = 60);

/* Rows of training with this loss, and a test behind every hundredth. */
static const char *write_run(const char *name, int count, double loss)
{
	const char *path = scratch_path(name);
	const struct metrics_format *format = metrics_format_of(path);
	FILE *out = fopen(path, "w");
	cr_assert(out);
	if (format->write_head)
		format->write_head(out, &(struct metrics_start){ 0 });
	for (int i = 0; i < count; i++) {
		struct metrics_row row = { .step = 100 * i,
			.epoch = 1,
			.sample_count = 6400 * i,
			.loss = loss,
			.accuracy = 0.5,
			.sample_tp = 1000 };
		format->write_row(out, &row);
		row.test = true;
		if (i % 100 == 99)
			format->write_row(out, &row);
	}
	fclose(out);
	return path;
}

/* The picture of runs, well-formed; free() it. */
static char *draw(const char *const paths[], int count)
{
	char *svg;
	size_t size;
	int depth = 0;
	FILE *out = open_memstream(&svg, &size);
	cr_assert_eq(curves_draw(out, paths, count), 0, "%s", failure());
	fclose(out);
	for (const char *at = strchr(svg, '<'); at; at = strchr(at + 1, '<')) {
		const char *end = strchr(at, '>');
		cr_assert(end && !memchr(at + 1, '<', end - at - 1));
		depth += at[1] == '/' ? -1 : end[-1] == '/' ? 0 : 1;
		cr_assert(depth > 0 || !strcmp(at, "</svg>\n"));
	}
	cr_assert_eq(depth, 0);
	cr_assert_null(strstr(svg, "nan"));
	cr_assert_null(strstr(svg, "inf"));
	return svg;
}

static int count_of(const char *text, const char *part)
{
	int count = 0;
	for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
		count++;
	return count;
}

/* The y of each point of a curve is this; returns the number of points. */
static int check_height(const char *curve, double y)
{
	int count = 0, read;
	double at[2];
	for (curve = strstr(curve, "points=\"") + 8;
		sscanf(curve, "%lf,%lf %n", &at[0], &at[1], &read) == 2; curve += read) {
		cr_assert_float_eq(at[1], y, 0.2, "%g is not %g", at[1], y);
		count++;
	}
	return count;
}

Test(curves, every_run_has_its_curves_and_a_name)
{
	const char *paths[] = { write_run("one.jsonl", 30, 2), write_run("two.csv", 300, 1) };
	char *svg = draw(paths, 2);
	cr_assert(strstr(svg, ">one.jsonl</text>"));
	cr_assert(strstr(svg, ">two.csv</text>"));
	cr_assert(strstr(svg, ">training</text>"));
	cr_assert(strstr(svg, ">samples per second</text>"));
	/* Loss and accuracy of both, the test of the second, throughput. */
	cr_assert_eq(count_of(svg, "<polyline"), 4 + 2 + 2);
	cr_assert_eq(count_of(svg, "<polyline class=\"curve c1 dashed\""), 2);
	free(svg);
}

Test(curves, points_lie_at_their_values)
{
	const char *paths[] = { write_run("one.csv", 10000, 1.5) };
	char *svg = draw(paths, 1);
	/* The throughput's axis goes from 0 to 1000 at the top of the panel. */
	const char *throughput = strstr(strstr(svg, ">Throughput<"), "<polyline");
	double top = atof(strstr(strstr(svg, ">Throughput<"), " y1=") + 5);
	cr_assert_eq(check_height(throughput, top), 400, "rows are averaged to 400");
	free(svg);
}

Test(curves, values_that_are_no_numbers_are_left_out)
{
	const char *paths[] = { write_run("one.jsonl", 30, NAN) };
	char *svg = draw(paths, 1);
	cr_assert_eq(count_of(svg, "<polyline"), 3);
	free(svg);
}

Test(curves, runs_with_the_same_name_keep_their_directories)
{
	cr_assert_eq(system(NULL) != 0, 1);
	char command[1024];
	snprintf(command, sizeof(command), "mkdir '%s' '%s'", scratch_path("a"), scratch_path("b"));
	cr_assert_eq(system(command), 0);
	const char *paths[] = { write_run("a/run.csv", 3, 1), write_run("b/run.csv", 3, 2) };
	char *svg = draw(paths, 2);
	cr_assert(strstr(svg, "b/run.csv</text>"));
	free(svg);
}

/* ---- The command ---- */

static int plot(const char *first, const char *second, const char *third)
{
	char *words[] = { "plot", (char *)first, (char *)second, (char *)third, NULL };
	int count = 1;
	while (words[count])
		count++;
	return plot_command(count, words);
}

static void expect_failure(int err, const char *reason)
{
	cr_assert_eq(err, 1);
	cr_assert(strstr(failure(), reason), "'%s' is not in: %s", reason, failure());
}

Test(curves, the_picture_has_the_name_of_the_first_run_or_another)
{
	const char *run = write_run("one.jsonl", 30, 2);
	cr_assert_eq(plot(run, NULL, NULL), 0, "%s", failure());
	cr_assert_eq(access(scratch_path("one.svg"), R_OK), 0);
	cr_assert_eq(plot("-o", scratch_path("two.svg"), run), 0, "%s", failure());
	cr_assert_eq(access(scratch_path("two.svg"), R_OK), 0);
	cr_assert_eq(scratch_count(), 3, "a draft is left");
}

Test(curves, a_file_without_rows_is_refused_and_leaves_no_picture)
{
	scratch_write("empty.csv", "", 0);
	scratch_write("bad.jsonl", "{}\n", 3);
	expect_failure(plot(scratch_path("empty.csv"), NULL, NULL), "empty.csv: has no rows");
	expect_failure(plot(scratch_path("bad.jsonl"), NULL, NULL), "bad.jsonl:1: is no row");
	expect_failure(plot(scratch_path("none.csv"), NULL, NULL), "none.csv: No such file");
	expect_failure(plot(scratch_path("x.txt"), NULL, NULL), "neither .csv nor .jsonl");
	expect_failure(plot(NULL, NULL, NULL), "which FILE");
	expect_failure(plot("-q", NULL, NULL), "plot -q: no such option");
	cr_assert_eq(scratch_count(), 2);
	const char *paths[CURVES_RUNS_MAX + 1] = { NULL };
	expect_failure(curves_draw(stdout, paths, CURVES_RUNS_MAX + 1), "at most 7 runs");
}
