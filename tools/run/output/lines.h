/*
 * Passes the ranks' output on to our stdout and stderr, whole lines only, so that lines of
 * different ranks never mix.
 *
 * A terminal also shows an unfinished line as it grows, such as a progress line that is redrawn
 * with carriage returns. When another rank finishes a line, that line replaces it on the screen,
 * and the unfinished one is drawn again below.
 */
#ifndef RUN_OUTPUT_LINES_H
#define RUN_OUTPUT_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "run/output/tail.h"

/* Bytes of what stands before a line, the last a zero. */
#define TAG_SIZE 96
/* Bytes. Longer lines are broken. */
#define LINE_MAX_SIZE ((size_t)1 << 20)
/* Bytes. While the queue holds more, no rank's output is read. */
#define SINK_FULL ((size_t)1 << 18)

struct bytes {
	char *data;
	size_t size, capacity;
	bool secret; /* no copy is left in memory once they are dropped */
};

struct lines;

/* Our stdout or stderr. */
struct sink {
	int fd;
	bool terminal;
	bool colours; /* a terminal, and NO_COLOR is not set */
	bool gone; /* a write failed, and no more follows */
	int error; /* errno of that write; 0: its reader has left */
	struct bytes queue; /* bytes from `sent` on are to be written */
	size_t sent;
	struct lines *open; /* the rank whose unfinished line is on the screen; NULL: none */
};

/* The output of one rank. */
struct lines {
	int fd; /* non-blocking; -1 once it has ended */
	struct sink *sink; /* NULL: they are not shown */
	int log; /* a file that also gets them, unchanged; -1: none, or a write failed */
	int log_error; /* errno of that write, until the caller has reported it; 0: none */
	struct tail *tail; /* keeps the last of them; NULL: no */
	char tag[TAG_SIZE]; /* before each line */
	struct bytes rest; /* the unfinished line */
	size_t shown; /* bytes of it on the screen */
};

void sink_init(struct sink *sink, int fd);
void sink_finish(struct sink *sink);
/* Bytes that wait to be written. */
size_t sink_waiting(const struct sink *sink);
/* Writes part of the queue. Call it when poll() reports POLLOUT: it does not block then. */
void sink_flush(struct sink *sink);
/* Queues bytes. */
void sink_write(struct sink *sink, const char *data, size_t size);
/* Queues a line of our own, after the name of the program. */
void sink_print(struct sink *sink, const char *text);

/* Takes over fd. There is no log and no tail; the caller may set both. */
void lines_init(struct lines *lines, int fd, struct sink *sink, const char *tag);
/* The file to poll for input; -1: the sink is full, or there will be no more. */
int lines_readable_fd(const struct lines *lines);
void lines_finish(struct lines *lines);
/* Reads once; false if there was nothing to read. */
bool lines_read(struct lines *lines);
/* Reads what is left of an output whose process has ended. Bounded: one that left its group, or
   holds its pipes, may go on. */
void lines_read_rest(struct lines *lines);

#endif
