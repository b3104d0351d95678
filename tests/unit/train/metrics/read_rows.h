/* The rows of a file of metrics, for tests. */
#ifndef TESTS_READ_ROWS_H
#define TESTS_READ_ROWS_H

#include "train/metrics/row.h"

struct rows {
	struct metrics_row rows[64]; /* [count] */
	size_t count;
	long size; /* bytes of whole lines, with the first of a CSV file */
};

/* Reads those of whole lines, as the format of the path's end has them. */
struct rows read_rows(const char *path);

#endif
