/* Deadlines in ms, of one clock. */
#ifndef RD_DEADLINE_H
#define RD_DEADLINE_H

#include <stdint.h>

#define RD_NEVER INT64_MAX

static inline int64_t rd_sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

#endif
