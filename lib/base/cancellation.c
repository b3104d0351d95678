#include "base/cancellation.h"

#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/thread.h"

static _Thread_local struct rd_cancellation *own;

/* ---- For all threads ------------------------------------------------------------------------ */

int rd_cancellation_init(struct rd_cancellation *cancellation, int rank)
{
	*cancellation = (struct rd_cancellation){ .rank = rank };
	cancellation->fd = rd_above_stderr(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (cancellation->fd < 0)
		return rd_fail_errno("cannot make an eventfd");
	pthread_mutex_init(&cancellation->lock, NULL);
	rd_condition_init(&cancellation->change);
	return 0;
}

void rd_cancellation_finish(struct rd_cancellation *cancellation)
{
	close(cancellation->fd);
	pthread_cond_destroy(&cancellation->change);
	pthread_mutex_destroy(&cancellation->lock);
}

void rd_cancellation_cancel(struct rd_cancellation *cancellation)
{
	uint64_t one = 1;

	pthread_mutex_lock(&cancellation->lock);
	/* A second time it might fill the counter, in the end. */
	if (!cancellation->cancelled && write(cancellation->fd, &one, sizeof(one)) == sizeof(one))
		cancellation->cancelled = true;
	pthread_mutex_unlock(&cancellation->lock);
}

enum rd_creation_state rd_cancellation_look(struct rd_cancellation *cancellation)
{
	enum rd_creation_state state = RD_CREATION_RUNS;

	pthread_mutex_lock(&cancellation->lock);
	while (cancellation->cancelled && !cancellation->over && !cancellation->disabled)
		pthread_cond_wait(&cancellation->change, &cancellation->lock);
	if (cancellation->over)
		state = RD_CREATION_OVER;
	else if (cancellation->cancelled)
		state = RD_CREATION_ABANDONED;
	cancellation->abandoned = state == RD_CREATION_ABANDONED;
	pthread_mutex_unlock(&cancellation->lock);
	return state;
}

/* ---- For the thread that creates ------------------------------------------------------------ */

void rd_cancellation_begin(struct rd_cancellation *cancellation)
{
	own = cancellation;
}

bool rd_cancellation_end(void)
{
	struct rd_cancellation *cancellation = own;
	bool abandoned;

	own = NULL;
	pthread_mutex_lock(&cancellation->lock);
	cancellation->over = true;
	abandoned = cancellation->abandoned;
	pthread_cond_broadcast(&cancellation->change);
	pthread_mutex_unlock(&cancellation->lock);
	return abandoned;
}

int rd_cancellation_fd(void)
{
	return own ? own->fd : -1;
}

bool rd_is_cancelled(void)
{
	struct pollfd fd = { .fd = rd_cancellation_fd(), .events = POLLIN };

	return own && poll(&fd, 1, 0) > 0;
}

int rd_fail_cancelled(void)
{
	return rd_fail(RONDO_REVOKED, RD_CANCELLED, own->rank);
}

void rd_cancellation_sleep(int ms)
{
	struct pollfd fd = { .fd = rd_cancellation_fd(), .events = POLLIN };

	poll(&fd, 1, ms);
}

static void set_disabled(bool disabled)
{
	if (!own)
		return;
	pthread_mutex_lock(&own->lock);
	own->disabled = disabled;
	pthread_cond_broadcast(&own->change);
	pthread_mutex_unlock(&own->lock);
}

void rd_cancellation_disable(void)
{
	set_disabled(true);
}

void rd_cancellation_enable(void)
{
	set_disabled(false);
}
