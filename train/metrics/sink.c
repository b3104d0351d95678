#include "train/metrics/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "train/base/fail.h"
#include "train/metrics/rows.h"

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
