/*
 * The reason of a failure, beyond its error code. One call records the reason and returns the
 * code. The callers above return the code with a plain `if (err) return err;`.
 */
#ifndef RD_ERROR_H
#define RD_ERROR_H

#include "rondo.h"

#define RD_REASON_SIZE 512

/* The end of a noun: "%d rank%s", count, RD_PLURAL(count). */
#define RD_PLURAL(count) ((count) == 1 ? "" : "s")

/* Records the reason (printf style, one line, no newline) for this thread, and returns `error`. */
int rd_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As rd_fail(RONDO_SYSTEM, ...), with ": " and the text of errno appended. */
int rd_fail_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
