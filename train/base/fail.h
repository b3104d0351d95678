/*
 * The reason of a failure, one line. The function that fails returns fail(); its callers have a
 * plain `if (err) return err;`. main() prints the line. Each thread has a line of its own.
 */
#ifndef TRAIN_FAIL_H
#define TRAIN_FAIL_H

/* Records the line; returns 1. */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Records "what: the library's reason"; returns error, a negative rondo_error. */
int fail_comm(int error, const char *what);
/* The line recorded last; empty when there is none. */
const char *failure(void);

#endif
