/*
 * The reason of a failure, beyond its error code. One call records the reason and returns the
 * code. The callers above return the code with a plain `if (err) return err;`.
 */
#ifndef RD_ERROR_H
#define RD_ERROR_H

#include "rondo.h"
#include <stdarg.h>

#define RD_REASON_SIZE 512

/* The end of a noun: "%d rank%s", count, RD_PLURAL(count). */
#define RD_PLURAL(count) ((count) == 1 ? "" : "s")

/* Records the reason (printf style, one line, no newline) for this thread, and returns `error`. */
int rd_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As rd_fail(RONDO_SYSTEM, ...), with ": " and the text of errno appended. */
int rd_fail_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A reason that is kept where most never have one: of failures, and of calls that wait for long. */

/* Replaces the text, which it frees; NULL: there was none. Cuts it to RD_REASON_SIZE - 1
   characters. Without memory there is none then. */
void rd_reason_set(char **reason, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rd_reason_set_args(char **reason, const char *format, va_list args);

/* Also where there was no memory for it: never NULL. */
static inline const char *rd_reason_text(const char *reason)
{
	return reason ? reason : "no memory for the reason";
}

#endif
