#include "train/metrics/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"
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

/* Room for one more: the capacity is the power of two from 64 on. */
static int make_room(struct metrics_rows *rows)
{
	size_t count = rows->count;
	if (count && (count < 64 || count & (count - 1)))
		return 0;
	size_t room = count ? 2 * count : 64;
	struct metrics_row *more = realloc(rows->rows, room * sizeof(*more));
	if (!more)
		return fail("out of memory for %zu rows of metrics", room);
	rows->rows = more;
	return 0;
}

/* Reads a line with its newline. False at the end, and for an unfinished line. */
static bool read_line(FILE *file, char line[LINE_SIZE], size_t *size)
{
	if (!fgets(line, LINE_SIZE, file))
		return false;
	*size = strlen(line);
	return *size == LINE_SIZE - 1 || (*size && line[*size - 1] == '\n');
}

int metrics_rows_read(struct metrics_rows *rows, const char *path, FILE *file,
	const struct metrics_format *format, const struct metrics_start *start)
{
	char line[LINE_SIZE];
	size_t size;
	bool expects_head = format->head_line != NULL;
	*rows = (struct metrics_rows){ 0 };
	rewind(file);
	for (int number = 1; read_line(file, line, &size); number++) {
		struct metrics_row row;
		line[size - 1] = '\0';
		bool valid = expects_head ? !strcmp(line, format->head_line)
					  : format->read_row(line, &row);
		if (!valid)
			return fail("%s:%d: is no row of rondo-train's metrics: give another file",
				path, number);
		if (!expects_head && start && is_repeated(&row, start))
			return 0;
		rows->size += (long)size;
		if (expects_head) {
			expects_head = false;
			continue;
		}
		int err = make_room(rows);
		if (err)
			return err;
		rows->rows[rows->count++] = row;
	}
	return ferror(file) ? fail("%s: cannot read: %s", path, strerror(errno)) : 0;
}

int metrics_rows_load(struct metrics_rows *rows, const char *path)
{
	const struct metrics_format *format = metrics_format_of(path);
	*rows = (struct metrics_rows){ 0 };
	if (!format)
		return fail("%s: ends in neither .csv nor .jsonl", path);
	FILE *file = rd_fopen(path, O_RDONLY);
	if (!file)
		return fail("%s: %s", path, strerror(errno));
	int err = metrics_rows_read(rows, path, file, format, NULL);
	fclose(file);
	return err;
}

void metrics_rows_finish(struct metrics_rows *rows)
{
	free(rows->rows);
	*rows = (struct metrics_rows){ 0 };
}
