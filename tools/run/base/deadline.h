/*
 * Deadlines on the monotonic clock, in ms; 0: there is none.
 */
#ifndef RUN_BASE_DEADLINE_H
#define RUN_BASE_DEADLINE_H

#include <stdint.h>

static inline int64_t deadline_earlier(int64_t a, int64_t b)
{
	return !a || (b && b < a) ? b : a;
}

#endif
