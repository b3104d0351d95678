/*
 * Metrics of a run: rows of values over all ranks, for files of several formats. Rank 0 alone has
 * them; a NULL struct metrics is off, and all functions accept it.
 */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include <stdint.h>

#include "train/metrics/report.h"
#include "train/metrics/row.h"

#define METRICS_FILES_MAX 8

struct metrics_files {
	const char *paths[METRICS_FILES_MAX]; /* [count], .csv or .jsonl */
	int count;
};

struct metrics;

/*
 * Opens the files. *metrics is NULL if there are none. Fails, with one line, if a file cannot be
 * written, or holds anything but metrics. start: see sink_open().
 */
int metrics_create(struct metrics **metrics, const struct metrics_files *files,
	const struct metrics_start *start);
void metrics_destroy(struct metrics *metrics);

/*
 * Steps and a test write a row, with one system call a file. If a file fails, one line on stderr
 * says so, and the run continues without it.
 */
/* Begins epoch `epoch`, from 1, after `sample_count` samples. */
void metrics_epoch(struct metrics *metrics, uint64_t epoch, uint64_t sample_count);
/* After `step` steps of all epochs, and `samples` samples of this one. totals and speed: of the
   steps since the row before, over all ranks. */
void metrics_step(struct metrics *metrics, uint64_t step, uint64_t samples,
	const struct totals *totals, double speed);
/* Likewise, the test. */
void metrics_test(
	struct metrics *metrics, uint64_t step, uint64_t samples, const struct totals *totals);

#endif
