/* The moments of a rank's start, which it appends to a file for the program `launch`. */
#ifndef STARTUP_MOMENTS_H
#define STARTUP_MOMENTS_H

#include <stdbool.h>
#include <stdint.h>

/* In ns of CLOCK_MONOTONIC. */
struct moments {
	int64_t started; /* in main() */
	int64_t joined; /* the communicator is there */
	int64_t called; /* the first all-reduce has returned */
};

int64_t now_ns(void);

/* False: the file cannot be written, and a line on stderr has the reason. */
bool moments_append(const struct moments *moments, const char *path);

#endif
