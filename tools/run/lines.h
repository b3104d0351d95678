/*
 * What the ranks print, passed on to our own stdout and stderr a whole line at a time, so that
 * lines of different ranks never mix.
 *
 * On a terminal an unfinished line (a progress line, say, redrawn with carriage returns) is shown
 * as it grows; when another rank finishes a line meanwhile, that line takes its place and the
 * unfinished one is drawn again below it.
 */
#ifndef RUN_LINES_H
#define RUN_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* A line longer than this is broken in two. */
#define LINE_MAX_SIZE ((size_t)1 << 20)
/* While so much waits to be written, nothing more is read. */
#define SINK_FULL ((size_t)1 << 18)

struct bytes {
	char *data;
	size_t size, capacity;
};

struct lines;

/* Where lines go: our stdout or stderr. */
struct sink {
	int fd;
	bool terminal;
	bool gone; /* nobody reads it any more */
	struct bytes queue; /* to be written, from `sent` on */
	size_t sent;
	struct lines *open; /* on a terminal: whose unfinished line is on the screen */
};

/* Where lines come from: what one rank prints. */
struct lines {
	int fd; /* non-blocking; -1 once it has ended */
	struct sink *sink;
	char tag[16]; /* before each line */
	struct bytes rest; /* the unfinished line */
	size_t shown; /* of it, on the screen already */
};

void sink_init(struct sink *sink, int fd);
void sink_finish(struct sink *sink);
/* Bytes that wait to be written. */
size_t sink_waiting(const struct sink *sink);
/* Writes some of the queue. Call it when the sink can be written to (poll): it does not block then.
 */
void sink_flush(struct sink *sink);
/* Queues a line of our own. */
void sink_print(struct sink *sink, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* fd becomes ours. */
void lines_init(struct lines *lines, int fd, struct sink *sink, const char *tag);
void lines_finish(struct lines *lines);
/* Reads once; false when there was nothing to read. */
bool lines_read(struct lines *lines);

#endif
