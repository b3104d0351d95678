#include "train/base/fail.h"

#include <stdarg.h>
#include <stdio.h>

#include <rondo.h>

static _Thread_local char line[1024];

int fail(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	return 1;
}

int fail_comm(int error, const char *what)
{
	const char *reason = rondo_last_error();
	fail("%s: %s", what, *reason ? reason : rondo_error_text(error));
	return error;
}

const char *failure(void)
{
	return line;
}
