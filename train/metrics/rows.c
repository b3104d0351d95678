#include "train/metrics/rows.h"

#include <errno.h>
#include <string.h>

#include "train/base/fail.h"

#define LINE_SIZE 1024 /* rows have about 200 bytes */

const struct metrics_format *metrics_format_of(const char *path)
{
	static const struct metrics_format *const formats[] = { &csv_format, &jsonl_format };
	size_t length = strlen(path);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		size_t suffix = strlen(formats[i]->suffix);
		if (length > suffix && !strcmp(path + length - suffix, formats[i]->suffix))
			return formats[i];
	}
	return NULL;
}

/* A run from `start` writes this row, or a later one in its place. */
static bool is_repeated(const struct metrics_row *row, const struct metrics_start *start)
{
	return row->sample_count > start->sample_count;
}

/* Reads a line with its newline. False at the end, and for an unfinished line. */
static bool read_line(FILE *file, char line[LINE_SIZE], size_t *size)
{
	if (!fgets(line, LINE_SIZE, file))
		return false;
	*size = strlen(line);
	return *size == LINE_SIZE - 1 || (*size && line[*size - 1] == '\n');
}

int metrics_rows_check(const char *path, FILE *file, const struct metrics_format *format,
	const struct metrics_start *start, long *kept)
{
	char line[LINE_SIZE];
	size_t size;
	bool keeps = true;
	*kept = 0;
	rewind(file);
	for (int number = 1; read_line(file, line, &size); number++) {
		struct metrics_row row = { 0 };
		line[size - 1] = '\0';
		bool valid = number == 1 && format->head_line ? !strcmp(line, format->head_line)
							      : format->read_row(line, &row);
		if (!valid)
			return fail("%s:%d: is no row of rondo-train's metrics: give another file",
				path, number);
		keeps = keeps && !is_repeated(&row, start);
		*kept += keeps ? (long)size : 0;
	}
	return ferror(file) ? fail("%s: cannot read: %s", path, strerror(errno)) : 0;
}
