/* Monotonic time, for bounds on waits. Only drivers read it; state machines take the time as an
   argument. */
#ifndef RD_CLOCK_H
#define RD_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t rd_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline int64_t rd_clock_ms(void)
{
	return rd_clock_ns() / 1000000;
}

/* Deadlines in ms, of one clock. */

#define RD_NEVER INT64_MAX

static inline int64_t rd_sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

#endif
