/* A file that receives the metrics of a run: a format, and the care for the file. */
#ifndef TRAIN_SINK_H
#define TRAIN_SINK_H

#include <limits.h>

#include "train/metrics/row.h"

#define SINK_TEXT 1024 /* bytes of the beginning of a file and a row, at most */

struct sink {
	const struct metrics_format *format;
	char path[PATH_MAX];
	int fd; /* -1: closed, after a failure */
	char text[SINK_TEXT];
	FILE *stream; /* writes into text */
	struct metrics_start start;
	bool created; /* the file was not there before */
	bool begun; /* a row was written */
	long size; /* bytes to keep: before the first row those of the earlier run, then all */
};

/*
 * Opens a file of lines, .csv or .jsonl. Its contents stay until the first row. A resumed run then
 * keeps the rows before its start, and another replaces all. Fails if the file cannot be written,
 * or holds anything but metrics.
 */
int sink_open(struct sink *sink, const char *path, const struct metrics_start *start);
/* Writes a row, whole, with one system call. After a failure the file ends with its last whole row,
   and is closed. */
int sink_write(struct sink *sink, const struct metrics_row *row);
/* Removes a file without a row that sink_open() created. */
void sink_close(struct sink *sink);

/* The rows of a file of metrics. */

/*
 * Reads an open file from its beginning. *kept: the bytes of its first line, and of the rows before
 * the first that a run from `start` writes again. An unfinished line at the end, of a run that was
 * killed, is left out. Fails for a line that is no row, with its number.
 */
int metrics_rows_check(const char *path, FILE *file, const struct metrics_format *format,
	const struct metrics_start *start, long *kept);

#endif
