#include "train/metrics/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "train/base/fail.h"

static int fail_write(const char *path)
{
	return fail("%s: cannot write: %s", path, strerror(errno));
}

/* ---- Opening ---- */

static int open_file(struct sink *sink)
{
	sink->fd = open(sink->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	sink->created = sink->fd >= 0;
	if (sink->fd < 0 && errno == EEXIST)
		sink->fd = rd_open(sink->path, O_WRONLY);
	if (sink->fd < 0)
		return fail_write(sink->path);
	sink->stream = fmemopen(sink->text, sizeof(sink->text), "w");
	return sink->stream ? 0 : fail("%s: out of memory", sink->path);
}

static bool is_regular(int fd)
{
	struct stat about;
	return !fstat(fd, &about) && S_ISREG(about.st_mode);
}

/* Finds out how much of the file stays. */
static int measure_rows(struct sink *sink)
{
	long kept;
	if (sink->created || !is_regular(sink->fd))
		return 0;
	FILE *file = fopen(sink->path, "re");
	if (!file)
		return fail("%s: cannot read: %s", sink->path, strerror(errno));
	int err = metrics_rows_check(sink->path, file, sink->format, &sink->start, &kept);
	if (!err && sink->start.resumed)
		sink->size = kept;
	fclose(file);
	return err;
}

static int set_path(struct sink *sink, const char *path)
{
	int length = snprintf(sink->path, sizeof(sink->path), "%s", path);
	return length < PATH_MAX ? 0 : fail("%s: the name is too long", path);
}

int sink_open(struct sink *sink, const char *path, const struct metrics_start *start)
{
	*sink = (struct sink){ .format = metrics_format_of(path), .start = *start, .fd = -1 };
	if (!sink->format)
		return fail("%s: ends in neither .csv nor .jsonl", path);
	int err = set_path(sink, path);
	if (!err)
		err = open_file(sink);
	if (!err)
		err = measure_rows(sink);
	if (err)
		sink_close(sink);
	return err;
}

/* Closes the file and the stream. */
static void close_file(struct sink *sink)
{
	if (sink->stream)
		fclose(sink->stream);
	if (sink->fd >= 0)
		close(sink->fd);
	sink->stream = NULL;
	sink->fd = -1;
}

void sink_close(struct sink *sink)
{
	bool unused = sink->fd >= 0 && sink->created && !sink->begun;
	close_file(sink);
	if (unused)
		unlink(sink->path);
}

/* ---- Writing ---- */

/* Cuts the file to the rows that stay. Files that are not regular have nothing to cut. */
static int begin(struct sink *sink)
{
	sink->begun = true;
	if (is_regular(sink->fd) &&
		(ftruncate(sink->fd, sink->size) || lseek(sink->fd, sink->size, SEEK_SET) < 0))
		return fail_write(sink->path);
	if (!sink->size && sink->format->head_line)
		fprintf(sink->stream, "%s\n", sink->format->head_line);
	return 0;
}

/* Writes the stream's text, whole or not at all. */
static int write_text(struct sink *sink)
{
	if (fflush(sink->stream))
		return fail_write(sink->path);
	long size = ftell(sink->stream), done = 0;
	rewind(sink->stream);
	while (done < size) {
		ssize_t written = write(sink->fd, sink->text + done, size - done);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0) {
			int err = fail_write(sink->path);
			(void)!ftruncate(sink->fd, sink->size);
			return err;
		}
		done += written;
	}
	sink->size += size;
	return 0;
}

int sink_write(struct sink *sink, const struct metrics_row *row)
{
	int err = sink->begun ? 0 : begin(sink);
	if (!err) {
		sink->format->write_row(sink->stream, row);
		err = write_text(sink);
	}
	if (err)
		close_file(sink);
	return err;
}

/* ---- Rows of a file ---- */

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
