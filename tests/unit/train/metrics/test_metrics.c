/* The files of metrics, as lines. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "train/base/fail.h"
#include "train/metrics/metrics.h"
#include "train/scratch.h"

TestSuite(metrics, .init = scratch_make, .fini = scratch_remove, .timeout = 60);

#define STEPS 20
#define SAMPLES 1280 /* of an epoch */

static const struct metrics_start fresh;
static const struct metrics_start resumed = { .resumed = true, .sample_count = SAMPLES };
static const char *const names[] = { "run.csv", "run.jsonl" };

static struct metrics *open_files(const struct metrics_start *start)
{
	struct metrics *metrics;
	struct metrics_files files = { .paths = { scratch_path(names[0]), scratch_path(names[1]) },
		.count = 2 };
	cr_assert_eq(metrics_create(&metrics, &files, start), 0, "%s", failure());
	cr_assert(metrics);
	return metrics;
}

/* A row, of loss 2.5 and accuracy 0.25, every tenth step; then the test. */
static void write_epoch(struct metrics *metrics, int epoch)
{
	const struct totals training = { 160, 16, 64 }, test = { 30, 75, 100 };
	metrics_epoch(metrics, epoch, (epoch - 1) * SAMPLES);
	for (int step = 10; step <= STEPS; step += 10)
		metrics_step(metrics, (epoch - 1) * STEPS + step, 64 * step, &training, 1000);
	metrics_test(metrics, epoch * STEPS, SAMPLES, &test);
}

static void write_epochs(const struct metrics_start *start, int first, int last)
{
	struct metrics *metrics = open_files(start);
	for (int epoch = first; epoch <= last; epoch++)
		write_epoch(metrics, epoch);
	metrics_destroy(metrics);
}

static char *read_text(const char *name)
{
	static char text[16384];
	FILE *file = fopen(scratch_path(name), "rb");
	cr_assert(file, "%s", name);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return text;
}

/* Both files hold these epochs, each once. */
static void expect_epochs(int epochs)
{
	for (int f = 0; f < 2; f++) {
		struct rows rows = read_rows(scratch_path(names[f]));
		cr_assert_eq(rows.count, (size_t)(3 * epochs), "%s", read_text(names[f]));
		for (size_t i = 0; i < rows.count; i++) {
			const struct metrics_row *row = &rows.rows[i];
			cr_assert_eq(row->test, i % 3 == 2);
			cr_assert_eq(row->epoch, i / 3 + 1);
			cr_assert_eq(
				row->step, i / 3 * STEPS + (i % 3 < 2 ? i % 3 * 10 + 10 : STEPS));
			cr_assert_eq(row->sample_count, 64 * row->step);
			cr_assert_eq(row->loss, row->test ? 0.3 : 2.5);
			cr_assert_eq(row->accuracy, row->test ? 0.75 : 0.25);
			cr_assert(row->test ? isnan(row->sample_tp) : row->sample_tp > 0);
			cr_assert_gt(row->time_s, 1.7e9);
		}
	}
}

Test(metrics, rows_are_read_as_they_were_written)
{
	write_epochs(&fresh, 1, 2);
	expect_epochs(2);
}

Test(metrics, files_have_the_names_that_the_page_lists)
{
	struct rd_json json;
	write_epochs(&fresh, 1, 1);
	const char *head =
		"step,epoch,loss,accuracy,test_loss,test_accuracy,sample_count,sample_tp,time\n"
		"10,1,2.5,0.25,,,640,1000,";
	cr_assert_eq(strncmp(read_text(names[0]), head, strlen(head)), 0);
	cr_assert(strstr(read_text(names[0]), "\n20,1,,,0.3,0.75,1280,,"));
	char *text = read_text(names[1]);
	cr_assert(strstr(text, "{\"step\": 20, \"epoch\": 1, \"test_loss\": 0.3, "
			       "\"test_accuracy\": 0.75, \"sample_count\": 1280, \"time\": "));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		cr_assert_eq(rd_json_parse(&json, "it", line, strlen(line)), 0, "%s", line);
		rd_json_finish(&json);
	}
}

Test(metrics, a_resumed_run_continues_its_files)
{
	write_epochs(&fresh, 1, 3);
	/* The checkpoint was that of epoch 1. */
	write_epochs(&resumed, 2, 2);
	expect_epochs(2);
}

Test(metrics, a_resumed_run_without_files_begins_them)
{
	write_epochs(&resumed, 2, 2);
	struct rows rows = read_rows(scratch_path(names[0]));
	cr_assert_eq(rows.count, 3);
	cr_assert_eq(rows.rows[0].step, STEPS + 10);
}

Test(metrics, a_resumed_run_cuts_an_unfinished_line)
{
	write_epochs(&fresh, 1, 1);
	for (int f = 0; f < 2; f++) {
		FILE *file = fopen(scratch_path(names[f]), "a");
		fputs(f ? "{\"step\": 20, \"ep" : "20,2,1.", file);
		fclose(file);
	}
	expect_epochs(1);
	write_epochs(&resumed, 2, 2);
	expect_epochs(2);
}

Test(metrics, another_run_replaces_the_files)
{
	write_epochs(&fresh, 1, 3);
	write_epochs(&fresh, 1, 1);
	expect_epochs(1);
}

Test(metrics, a_run_that_fails_at_its_start_changes_nothing)
{
	metrics_destroy(open_files(&fresh));
	cr_assert_eq(scratch_count(), 0, "an empty file is left");
	write_epochs(&fresh, 1, 3);
	metrics_destroy(open_files(&resumed));
	metrics_destroy(open_files(&fresh));
	expect_epochs(3);
}

Test(metrics, a_loss_that_is_no_number_is_kept)
{
	const struct totals lost = { NAN, 16, 64 };
	struct metrics *metrics = open_files(&fresh);
	metrics_epoch(metrics, 1, 0);
	metrics_step(metrics, 1, 64, &lost, 1000);
	metrics_destroy(metrics);
	cr_assert(strstr(read_text(names[1]), "\"loss\": null, "));
	for (int f = 0; f < 2; f++) {
		struct rows rows = read_rows(scratch_path(names[f]));
		cr_assert(isnan(rows.rows[0].loss));
		cr_assert_not(rows.rows[0].test);
	}
}

/* ---- Files that cannot be written ---- */

static void expect_failure(const char *path, const char *reason)
{
	struct metrics *metrics;
	struct metrics_files files = { .paths = { path }, .count = 1 };
	cr_assert_eq(metrics_create(&metrics, &files, &fresh), 1, "%s is accepted", path);
	cr_assert(strstr(failure(), reason), "'%s' is not in: %s", reason, failure());
	cr_assert_null(metrics);
}

Test(metrics, other_files_are_refused_and_stay)
{
	static const char *const lines[] = { "hello\n", "step,loss\n1,2\n", "{\"step\": 1}\n",
		"{\"step\": 1, \"epoch\": 1, \"sample_count\": 5, \"loss\": 1, \"test_loss\": 1}\n",
		"{\"step\": -1, \"epoch\": 1, \"sample_count\": 5, \"loss\": 1}\n",
		"{\"step\": 1, \"epoch\": 1, \"sample_count\": 5, \"loss\": 0x1}\n",
		"{\"step\": 1, \"epoch\": 1, \"sample_count\": 5, \"loss\": 1} x\n", "\n" };
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		for (int f = 0; f < 2; f++) {
			scratch_write(names[f], lines[i], strlen(lines[i]));
			expect_failure(
				scratch_path(names[f]), ":1: is no row of rondo-train's metrics");
			cr_assert_str_eq(read_text(names[f]), lines[i]);
		}
	/* Empty files are nobody's. */
	for (int f = 0; f < 2; f++)
		scratch_write(names[f], "", 0);
	write_epochs(&fresh, 1, 1);
	expect_epochs(1);
}

Test(metrics, a_bad_line_is_named_by_its_number)
{
	write_epochs(&fresh, 1, 1);
	FILE *file = fopen(scratch_path(names[0]), "a");
	fputs("20,2,1.5,0.5,,,1280,9\n", file);
	fclose(file);
	expect_failure(scratch_path(names[0]), "run.csv:5: is no row");
}

Test(metrics, a_file_that_cannot_be_written_fails_at_the_start)
{
	expect_failure(scratch_path("no/run.csv"), "no/run.csv: cannot write: No such file");
	cr_assert_eq(mkfifo(scratch_path("fifo.csv"), 0600), 0);
	expect_failure(scratch_path("fifo.csv"), "fifo.csv: cannot write: No such device");
	expect_failure(scratch_path("run.txt"), "run.txt: ends in neither .csv nor .jsonl");
}

Test(metrics, a_full_disk_costs_one_line_and_no_other_file)
{
	int stderr_fd = dup(STDERR_FILENO);
	cr_assert_eq(symlink("/dev/full", scratch_path(names[0])), 0);
	cr_assert(freopen(scratch_path("stderr"), "w", stderr));
	struct metrics *metrics = open_files(&fresh);
	for (int epoch = 1; epoch <= 2; epoch++)
		write_epoch(metrics, epoch);
	metrics_destroy(metrics);
	fflush(stderr);
	dup2(stderr_fd, STDERR_FILENO);
	cr_assert_eq(unlink(scratch_path(names[0])), 0);
	write_epochs(&fresh, 1, 1);
	char *line = read_text("stderr");
	cr_assert(strstr(line, "run.csv: cannot write: No space left on device; training continues "
			       "without this file\n"),
		"%s", line);
	cr_assert_eq(strchr(line, '\n'), line + strlen(line) - 1, "%s", line);
}

Test(metrics, the_file_next_to_a_full_one_is_whole)
{
	cr_assert_eq(symlink("/dev/full", scratch_path(names[0])), 0);
	cr_assert(freopen("/dev/null", "w", stderr));
	struct metrics *metrics = open_files(&fresh);
	write_epoch(metrics, 1);
	metrics_destroy(metrics);
	cr_assert_eq(unlink(scratch_path(names[0])), 0);
	struct rows rows = read_rows(scratch_path(names[1]));
	cr_assert_eq(rows.count, 3);
}

Test(metrics, a_disk_that_fills_up_leaves_whole_rows)
{
	const struct rlimit limit = { 400, 400 };
	signal(SIGXFSZ, SIG_IGN);
	cr_assert(freopen("/dev/null", "w", stderr));
	struct metrics *metrics = open_files(&fresh);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (int epoch = 1; epoch <= 9; epoch++)
		write_epoch(metrics, epoch);
	metrics_destroy(metrics);
	for (int f = 0; f < 2; f++) {
		struct rows rows = read_rows(scratch_path(names[f]));
		cr_assert_gt(rows.count, 1);
		cr_assert_lt(rows.count, 9);
		cr_assert_eq(strlen(read_text(names[f])), (size_t)rows.size, "a part of a row");
	}
}
