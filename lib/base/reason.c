#include "base/reason.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void rd_reason_set_args(char **reason, const char *format, va_list args)
{
	char text[RD_REASON_SIZE];

	/* The one that it replaces may be an argument. */
	vsnprintf(text, sizeof(text), format, args);
	free(*reason);
	*reason = strdup(text);
}

void rd_reason_set(char **reason, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	rd_reason_set_args(reason, format, args);
	va_end(args);
}
