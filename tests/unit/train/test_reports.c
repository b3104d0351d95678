/* The files that whole runs write: metrics and traces. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "train/base/fail.h"
#include "train/job.h"
#include "train/scratch.h"

TestSuite(reports, .init = make_data, .fini = scratch_remove, .timeout = 600);

/* Runs the job with reports, and reads its metrics. */
static struct rows run_with_metrics(struct job *job, int size, const char *name)
{
	job->reports = true;
	job->options.metrics.paths[0] = scratch_path(name);
	job->options.metrics.count = 1;
	run_ranks(job, size);
	return read_rows(scratch_path(name));
}

/* Rows are written with nine digits: a loss below ten is off by half of the last one. */
#define WRITTEN (0.51e-8)

/* Each epoch has the row of its steps and one of the test. */
static void expect_rows(const struct rows *rows, const struct rows *expected)
{
	cr_assert_eq(rows->count, 4);
	for (int i = 0; i < 4; i++) {
		const struct metrics_row *row = &rows->rows[i], *other = &expected->rows[i];
		cr_assert_eq(row->test, i % 2);
		cr_assert_eq(row->epoch, (uint64_t)(1 + i / 2));
		cr_assert_eq(row->step, (uint64_t)((i / 2 + 1) * EPOCH_STEPS));
		cr_assert_eq(row->sample_count, (uint64_t)((i / 2 + 1) * IMAGES));
		cr_assert_float_eq(row->loss, other->loss, MLP_LOSS_BOUND + WRITTEN);
		/* One guess may have been even. */
		cr_assert_float_eq(row->accuracy, other->accuracy, 1.1 / TESTS);
	}
}

Test(reports, metrics_cover_all_ranks)
{
	struct job one = make_job(), three = make_job();
	struct rows alone = run_with_metrics(&one, 1, "one.csv");
	struct rows many = run_with_metrics(&three, 3, "three.jsonl");
	cr_assert_lt(alone.rows[3].loss, alone.rows[1].loss);
	expect_rows(&alone, &alone);
	expect_rows(&many, &alone);
	/* The same numbers as in the lines. */
	char line[64];
	snprintf(line, sizeof(line), "\nloss: %.6f  [  290/  290]  step 7, ", many.rows[0].loss);
	cr_assert(strstr(three.outcome->report, line), "%s", three.outcome->report);
	snprintf(line, sizeof(line), "Avg loss: %.6f \n", many.rows[3].loss);
	cr_assert(strstr(three.outcome->report, line), "%s", three.outcome->report);
}

/* The clock of these tests: a step takes a second, and a test a thousand. */
static double now_s;
static bool clock_is_set;
double __real_clock_seconds(void);
double __wrap_clock_seconds(void);
int __real_train_step(struct train *train, size_t step);
int __wrap_train_step(struct train *train, size_t step);
int __real_train_test(struct train *train, struct totals *totals);
int __wrap_train_test(struct train *train, struct totals *totals);

double __wrap_clock_seconds(void)
{
	return clock_is_set ? now_s : __real_clock_seconds();
}

int __wrap_train_step(struct train *train, size_t step)
{
	now_s += 1;
	return __real_train_step(train, step);
}

int __wrap_train_test(struct train *train, struct totals *totals)
{
	now_s += 1000;
	return __real_train_test(train, totals);
}

/* Two ranks, steps of 48 samples and a last one of 2: lines after steps 3, 6 and 7. */
Test(reports, a_line_has_the_mean_and_the_speed_since_the_line_before)
{
	static const double speeds[] = { 48, 48, 2 };
	static const int ends[] = { 3, 6, 7 };
	struct job each = make_job(), three = make_job();
	run_ranks(&each, 2);
	clock_is_set = true;
	three.options.report_every = 3;
	struct rows rows = run_with_metrics(&three, 2, "three.csv");
	cr_assert_eq(rows.count, 8);
	for (int i = 0, step = 0; i < 6; i++) {
		const struct metrics_row *row = &rows.rows[i / 3 * 4 + i % 3];
		int end = i / 3 * EPOCH_STEPS + ends[i % 3], first = step;
		double sum = 0;
		for (; step < end; step++)
			sum += each.outcome->losses[step];
		cr_assert_eq(row->step, (uint64_t)end);
		/* The same bits: a sum of two ranks has one result. */
		cr_assert_float_eq(row->loss, sum / (end - first), WRITTEN);
		cr_assert_eq(row->sample_tp, speeds[i % 3], "%g", row->sample_tp);
	}
	cr_assert(strstr(three.outcome->report, "  [  144/  290]  step 3, 48 images/s\nloss: "),
		"%s", three.outcome->report);
	cr_assert(strstr(three.outcome->report, "  [  290/  290]  step 14, 2 images/s\n"));
}

Test(reports, a_resumed_run_continues_its_metrics)
{
	struct job whole = make_job(), half = make_job(), rest = make_job();
	half.options.epochs = 1;
	half.options.checkpoint = rest.options.resume = scratch_path("half");
	struct rows first = run_with_metrics(&half, 2, "run.jsonl");
	cr_assert_eq(first.count, 2);
	/* Rows behind the checkpoint are replaced. */
	struct rows all = run_with_metrics(&whole, 2, "run.jsonl");
	rest.options.global_batch = -1;
	struct rows again = run_with_metrics(&rest, 2, "run.jsonl");
	expect_rows(&again, &all);
}

Test(reports, a_file_that_cannot_be_written_ends_all_ranks_before_training)
{
	struct job metrics = make_job(), trace = make_job();
	metrics.options.metrics.paths[0] = scratch_path("no/run.csv");
	metrics.options.metrics.count = 1;
	expect_failure(&metrics, 3, "no/run.csv: cannot write: No such file");
	trace.options.trace = scratch_path("no/trace.json");
	expect_failure(&trace, 3, "no/trace.json: cannot write: No such file");
}

static int count_of(const char *text, const char *part)
{
	int count = 0;
	for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
		count++;
	return count;
}

Test(reports, a_trace_holds_the_steps_of_every_rank)
{
	static char text[RD_JSON_SIZE_MAX];
	struct job job = make_job();
	struct rd_json json;
	job.options.trace = scratch_path("trace.json");
	job.reports = true;
	run_ranks(&job, 2);
	FILE *file = fopen(scratch_path("trace.json"), "rb");
	cr_assert(file);
	size_t size = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	cr_assert_eq(rd_json_parse(&json, "it", text, size), 0, "%s", rondo_last_error());
	rd_json_finish(&json);
	cr_assert_eq(count_of(text, "\"name\":\"backward\",\"pid\":0"), STEPS);
	cr_assert_eq(count_of(text, "\"name\":\"backward\",\"pid\":1"), STEPS);
	cr_assert_eq(count_of(text, "\"name\":\"optimizer\",\"pid\":1"), STEPS);
	cr_assert_geq(count_of(text, "\"name\":\"forward\",\"pid\":1"), STEPS);
	cr_assert_eq(count_of(text, "\"name\":\"bucket 0\",\"pid\":1,\"tid\":1"), STEPS);
	cr_assert_eq(count_of(text, "\"name\":\"ready: bucket 0\",\"pid\":1,\"tid\":0"), STEPS);
	cr_assert_geq(count_of(text, "\"name\":\"loader\",\"pid\":1"), STEPS);
}
