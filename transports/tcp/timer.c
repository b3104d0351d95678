#include "transports/tcp/timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

void rd_tcp_timer_request(struct rd_tcp_timer *timer, int64_t at_ms)
{
	struct itimerspec when = { 0 };
	int64_t left_ms = at_ms - rd_clock_ms();

	if (timer->at_ms && timer->at_ms <= at_ms)
		return;
	timer->at_ms = at_ms;
	if (left_ms < 1)
		left_ms = 1;
	when.it_value.tv_sec = left_ms / 1000;
	when.it_value.tv_nsec = left_ms % 1000 * 1000000;
	timerfd_settime(timer->fd, 0, &when, NULL);
}

bool rd_tcp_timer_expired(struct rd_tcp_timer *timer)
{
	uint64_t count;

	if (read(timer->fd, &count, sizeof(count)) < 0)
		return false;
	timer->at_ms = 0;
	return true;
}
