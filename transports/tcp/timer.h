/*
 * One timerfd for all the deadlines of an endpoint: it expires at the earliest one.
 */
#ifndef RD_TCP_TIMER_H
#define RD_TCP_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct rd_tcp_timer {
	int fd; /* -1: none */
	int64_t at_ms; /* when it expires, by rd_clock_ms(); 0: it is not set */
};

/* Requests that the timer expires at at_ms or earlier. */
void rd_tcp_timer_request(struct rd_tcp_timer *timer, int64_t at_ms);

/* Returns whether it has expired. It is then no longer set: deadlines that are left must be
   requested again. */
bool rd_tcp_timer_expired(struct rd_tcp_timer *timer);

#endif
