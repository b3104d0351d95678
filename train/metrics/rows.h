/* The rows of a file of metrics. */
#ifndef TRAIN_ROWS_H
#define TRAIN_ROWS_H

#include "train/metrics/row.h"

struct metrics_rows {
	struct metrics_row *rows; /* [count] */
	size_t count;
	long size; /* bytes of the file that these rows take, with its first line */
};

/*
 * Reads the rows of an open file from its beginning, up to the first that a run from `start` writes
 * again; start NULL: all. An unfinished line at the end, of a run that was killed, is left out.
 * Fails for a line that is no row, with its number. metrics_rows_finish() frees in any case.
 */
int metrics_rows_read(struct metrics_rows *rows, const char *path, FILE *file,
	const struct metrics_format *format, const struct metrics_start *start);
/* The same for a file by its name, all rows. */
int metrics_rows_load(struct metrics_rows *rows, const char *path);
void metrics_rows_finish(struct metrics_rows *rows);

#endif
