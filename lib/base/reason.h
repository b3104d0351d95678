/* A reason that is kept where most never have one: of failures, and of calls that wait for long. */
#ifndef RD_REASON_H
#define RD_REASON_H

#include <stdarg.h>

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
