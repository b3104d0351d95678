#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

static _Thread_local char reason[RD_REASON_SIZE];

int rd_fail(int error, const char *format, ...)
{
	/* Another buffer first: the arguments may quote the present reason. */
	char text[RD_REASON_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	memcpy(reason, text, sizeof(text));
	return error;
}

int rd_fail_errno(const char *format, ...)
{
	int saved = errno;
	char text[RD_REASON_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	errno = saved;
	return rd_fail(RONDO_SYSTEM, "%s: %m", text);
}

const char *rondo_last_error(void)
{
	return reason;
}

const char *rondo_error_text(int error)
{
	switch (error) {
	case RONDO_OK:
		return "success";
	case RONDO_PENDING:
		return "work is not done yet";
#define TEXT_CASE(name, value, text) \
	case name: \
		return text;
		RONDO_ERRORS(TEXT_CASE)
#undef TEXT_CASE
	}
	return "unknown error";
}

const char *rondo_error_name(int error)
{
	switch (error) {
	case RONDO_OK:
		return "RONDO_OK";
	case RONDO_PENDING:
		return "RONDO_PENDING";
#define NAME_CASE(name, value, text) \
	case name: \
		return #name;
		RONDO_ERRORS(NAME_CASE)
#undef NAME_CASE
	}
	return "unknown error";
}

void rd_reason_set_args(char **kept, const char *format, va_list args)
{
	char text[RD_REASON_SIZE];

	/* The one that it replaces may be an argument. */
	vsnprintf(text, sizeof(text), format, args);
	free(*kept);
	*kept = strdup(text);
}

void rd_reason_set(char **kept, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	rd_reason_set_args(kept, format, args);
	va_end(args);
}
