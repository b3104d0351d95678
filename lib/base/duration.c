#include "base/duration.h"

#include <stdio.h>

const char *rd_duration(char text[RD_DURATION_SIZE], int64_t ms)
{
	if (ms % 1000 == 0)
		snprintf(text, RD_DURATION_SIZE, "%lld s", (long long)ms / 1000);
	else
		snprintf(text, RD_DURATION_SIZE, "%lld ms", (long long)ms);
	return text;
}
