/* The rows of a file of metrics. */
#ifndef TRAIN_ROWS_H
#define TRAIN_ROWS_H

#include "train/metrics/row.h"

/*
 * Reads an open file from its beginning. *kept: the bytes of its first line, and of the rows before
 * the first that a run from `start` writes again. An unfinished line at the end, of a run that was
 * killed, is left out. Fails for a line that is no row, with its number.
 */
int metrics_rows_check(const char *path, FILE *file, const struct metrics_format *format,
	const struct metrics_start *start, long *kept);

#endif
