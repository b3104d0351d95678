#include "run/output/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/base/memory.h"

#define PROGRAM "rondo-run: "
#define ERASE_LINE "\r\033[K"

/* Where bytes are secret, realloc() would leave a copy of them behind. */
static void bytes_grow(struct bytes *bytes, size_t capacity)
{
	char *before = bytes->data;

	if (bytes->secret) {
		bytes->data = memory_realloc(NULL, capacity);
		if (bytes->size > 0)
			memcpy(bytes->data, before, bytes->size);
		if (before)
			explicit_bzero(before, bytes->capacity);
		free(before);
	} else {
		bytes->data = memory_realloc(before, capacity);
	}
	bytes->capacity = capacity;
}

static void bytes_append(struct bytes *bytes, const char *data, size_t size)
{
	if (bytes->size + size >= bytes->capacity)
		bytes_grow(bytes, 2 * (bytes->size + size) + 64);
	if (size > 0)
		memcpy(bytes->data + bytes->size, data, size);
	bytes->size += size;
}

static void bytes_drop(struct bytes *bytes, size_t size)
{
	bytes->size -= size;
	if (bytes->size > 0)
		memmove(bytes->data, bytes->data + size, bytes->size);
	if (bytes->secret && size > 0)
		explicit_bzero(bytes->data + bytes->size, size);
}

static void bytes_finish(struct bytes *bytes)
{
	if (bytes->secret && bytes->data)
		explicit_bzero(bytes->data, bytes->capacity);
	free(bytes->data);
	*bytes = (struct bytes){ 0 };
}

static bool wants_colours(void)
{
	const char *none = getenv("NO_COLOR"), *kind = getenv("TERM");

	return !(none && *none) && !(kind && strcmp(kind, "dumb") == 0);
}

void sink_init(struct sink *sink, int fd)
{
	*sink = (struct sink){ .fd = fd, .terminal = isatty(fd) };
	sink->colours = sink->terminal && wants_colours();
}

void sink_finish(struct sink *sink)
{
	bytes_finish(&sink->queue);
}

void sink_write(struct sink *sink, const char *data, size_t size)
{
	if (!sink->gone)
		bytes_append(&sink->queue, data, size);
}

size_t sink_waiting(const struct sink *sink)
{
	return sink->queue.size - sink->sent;
}

static void sink_empty(struct sink *sink)
{
	bytes_drop(&sink->queue, sink->queue.size);
	sink->sent = 0;
}

void sink_flush(struct sink *sink)
{
	/* poll() promises a pipe room for this much, so that a write within it does not block. */
	size_t size = sink_waiting(sink) < PIPE_BUF ? sink_waiting(sink) : PIPE_BUF;
	ssize_t written;

	if (size == 0)
		return;
	written = write(sink->fd, sink->queue.data + sink->sent, size);
	if (written >= 0) {
		sink->sent += (size_t)written;
	} else if (errno != EINTR && errno != EAGAIN) {
		bool left = errno == EPIPE || (errno == EIO && sink->terminal);

		sink->error = left ? 0 : errno;
		sink->gone = true;
		sink_empty(sink);
	}
	if (sink_waiting(sink) == 0) {
		sink_empty(sink);
	} else if (sink->sent > SINK_FULL) {
		bytes_drop(&sink->queue, sink->sent);
		sink->sent = 0;
	}
}

/* Draws the unfinished line of the screen from its start. */
static void sink_draw_open(struct sink *sink)
{
	struct lines *open = sink->open;

	if (!open)
		return;
	sink_write(sink, open->tag, strlen(open->tag));
	sink_write(sink, open->rest.data, open->rest.size);
}

void sink_print(struct sink *sink, const char *text)
{
	if (sink->open)
		sink_write(sink, ERASE_LINE, strlen(ERASE_LINE));
	sink_write(sink, PROGRAM, strlen(PROGRAM));
	sink_write(sink, text, strlen(text));
	sink_write(sink, "\n", 1);
	sink_draw_open(sink);
}

void lines_init(struct lines *lines, int fd, struct sink *sink, const char *tag)
{
	*lines = (struct lines){ .fd = fd, .sink = sink, .log = -1 };
	snprintf(lines->tag, sizeof(lines->tag), "%s", tag);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Passes on the first `size` bytes of the rest as a line. */
static void lines_end_line(struct lines *lines, size_t size)
{
	struct sink *sink = lines->sink;

	if (sink->open == lines) {
		sink->open = NULL;
	} else {
		if (sink->open)
			sink_write(sink, ERASE_LINE, strlen(ERASE_LINE));
		sink_write(sink, lines->tag, strlen(lines->tag));
	}
	sink_write(sink, lines->rest.data + lines->shown, size - lines->shown);
	sink_write(sink, "\n", 1);
	lines->shown = 0;
	sink_draw_open(sink);
}

/* Drops what the last carriage return has overwritten on the screen. */
static void lines_drop_overdrawn(struct lines *lines)
{
	struct bytes *rest = &lines->rest;
	char *last = rest->size > 1 ? memrchr(rest->data, '\r', rest->size - 1) : NULL;

	if (last) {
		bytes_drop(rest, (size_t)(last - rest->data));
		lines->shown = rest->size;
	}
}

static void lines_show_rest(struct lines *lines)
{
	struct sink *sink = lines->sink;

	if (!sink->terminal || lines->rest.size == 0 || (sink->open && sink->open != lines))
		return;
	if (!sink->open)
		sink_write(sink, lines->tag, strlen(lines->tag));
	sink->open = lines;
	sink_write(sink, lines->rest.data + lines->shown, lines->rest.size - lines->shown);
	lines->shown = lines->rest.size;
	lines_drop_overdrawn(lines);
}

static void lines_feed(struct lines *lines, const char *data, size_t size)
{
	const char *end;

	while ((end = memchr(data, '\n', size))) {
		size_t length = (size_t)(end - data);

		bytes_append(&lines->rest, data, length);
		lines_end_line(lines, lines->rest.size);
		lines->rest.size = 0;
		data += length + 1;
		size -= length + 1;
	}
	bytes_append(&lines->rest, data, size);
	if (lines->rest.size > LINE_MAX_SIZE) {
		lines_end_line(lines, lines->rest.size);
		lines->rest.size = 0;
	}
	lines_show_rest(lines);
}

/* A log that cannot be written takes nothing from the console. */
static void lines_log(struct lines *lines, const char *data, size_t size)
{
	while (size > 0 && lines->log >= 0) {
		ssize_t written = write(lines->log, data, size);

		if (written > 0) {
			data += written;
			size -= (size_t)written;
		} else if (written == 0 || errno != EINTR) {
			lines->log_error = written == 0 ? EIO : errno;
			lines->log = -1;
		}
	}
}

void lines_finish(struct lines *lines)
{
	if (lines->fd < 0)
		return;
	if (lines->rest.size > 0) {
		lines_end_line(lines, lines->rest.size);
		lines->rest.size = 0;
	}
	bytes_finish(&lines->rest);
	close(lines->fd);
	lines->fd = -1;
}

int lines_readable_fd(const struct lines *lines)
{
	/* A rank that prints too fast waits, as in any pipe. */
	return lines->fd >= 0 && lines->sink && sink_waiting(lines->sink) >= SINK_FULL ? -1
										       : lines->fd;
}

bool lines_read(struct lines *lines)
{
	char data[1 << 16];
	ssize_t size;

	if (lines->fd < 0)
		return false;
	/* Without a reader at our end, the rank gets SIGPIPE, as it would without us. */
	if (lines->sink && lines->sink->gone && lines->log < 0) {
		lines_finish(lines);
		return false;
	}
	size = read(lines->fd, data, sizeof(data));
	if (size > 0) {
		lines_log(lines, data, (size_t)size);
		if (lines->tail)
			tail_write(lines->tail, data, (size_t)size);
		if (lines->sink)
			lines_feed(lines, data, (size_t)size);
		return true;
	}
	/* A terminal returns EIO where a pipe returns end of file. */
	if (size == 0 || (errno != EAGAIN && errno != EINTR))
		lines_finish(lines);
	return false;
}

void lines_read_rest(struct lines *lines)
{
	for (int reads = 0; reads < 64 && lines_read(lines); reads++)
		;
}
