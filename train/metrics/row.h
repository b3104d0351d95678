/* Metrics of a training run at one moment, over all ranks, and the formats of files with them. */
#ifndef TRAIN_ROW_H
#define TRAIN_ROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Either of the training steps since the row before, or of a test. */
struct metrics_row {
	bool test;
	uint64_t step; /* steps so far, over all epochs */
	uint64_t epoch; /* from 1 */
	uint64_t sample_count; /* samples so far, over all ranks */
	double loss; /* the mean; JSON has null for one that is not finite */
	double accuracy; /* 0 to 1 */
	double sample_tp; /* samples a second, of those steps; NAN for a test */
	double time_s; /* since 1970 */
};

/* Where a run begins to write. */
struct metrics_start {
	bool resumed;
	uint64_t sample_count; /* 0 unless resumed */
};

struct metrics_format {
	const char *suffix;
	void (*write_row)(FILE *out, const struct metrics_row *row);
	/* Reads a line without its newline; false: it is no row. */
	bool (*read_row)(const char *line, struct metrics_row *row);
	const char *head_line; /* the first line of each file; NULL: a row is */
};

/* "step,epoch,..." and a line for each row. */
extern const struct metrics_format csv_format;
/* A JSON object in each line. */
extern const struct metrics_format jsonl_format;

/* The format of a file of lines by its name's end, .csv or .jsonl; NULL: neither. */
const struct metrics_format *metrics_format_of(const char *path);

#endif
