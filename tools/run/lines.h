/*
 * Passes the ranks' output on to our stdout and stderr, whole lines only, so that lines of
 * different ranks never mix.
 *
 * A terminal also shows an unfinished line as it grows, such as a progress line that is redrawn
 * with carriage returns. When another rank finishes a line, that line replaces it on the screen,
 * and the unfinished one is drawn again below.
 */
#ifndef RUN_LINES_H
#define RUN_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes. Longer lines are broken. */
#define LINE_MAX_SIZE ((size_t)1 << 20)
/* Bytes. While the queue holds more, no rank's output is read. */
#define SINK_FULL ((size_t)1 << 18)

struct bytes {
	char *data;
	size_t size, capacity;
};

struct lines;

/* Our stdout or stderr. */
struct sink {
	int fd;
	bool terminal;
	bool gone; /* a write failed: it has no reader any more */
	struct bytes queue; /* bytes from `sent` on are to be written */
	size_t sent;
	struct lines *open; /* the rank whose unfinished line is on the screen; NULL: none */
};

/* The output of one rank. */
struct lines {
	int fd; /* non-blocking; -1 once it has ended */
	struct sink *sink;
	char tag[16]; /* before each line */
	struct bytes rest; /* the unfinished line */
	size_t shown; /* bytes of it on the screen */
};

void sink_init(struct sink *sink, int fd);
void sink_finish(struct sink *sink);
/* Bytes that wait to be written. */
size_t sink_waiting(const struct sink *sink);
/* Writes part of the queue. Call it when poll() reports POLLOUT: it does not block then. */
void sink_flush(struct sink *sink);
/* Queues a line of our own. */
void sink_print(struct sink *sink, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Takes over fd. */
void lines_init(struct lines *lines, int fd, struct sink *sink, const char *tag);
void lines_finish(struct lines *lines);
/* Reads once; false if there was nothing to read. */
bool lines_read(struct lines *lines);

#endif
