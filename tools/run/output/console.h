/*
 * Our stdout and stderr, where the ranks' lines and our own go.
 */
#ifndef RUN_OUTPUT_CONSOLE_H
#define RUN_OUTPUT_CONSOLE_H

#include <stdbool.h>

#include "run/base/polls.h"
#include "run/output/lines.h"

struct console {
	struct sink out, err;
	struct sink *messages; /* for our own lines: &err, or &out where both are one */
	int polls[2]; /* of out and err */
};

/* The console must not move afterwards. */
void console_init(struct console *console);
void console_finish(struct console *console);

/* Queues a line of our own, which begins with "rondo-run: ". */
void console_print(struct console *console, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Writes what waits, for as long as its readers take it. */
void console_flush(struct console *console);
/* Whether lines could not be written, though their reader is there: on a full disk. Says so on
   stderr. */
bool console_has_lost_lines(const struct console *console);

/* Whether lines wait to be written. */
bool console_waiting(const struct console *console);
void console_add_polls(struct console *console, struct polls *polls);
void console_take_polls(struct console *console, const struct polls *polls);

#endif
