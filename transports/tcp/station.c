#include "transports/tcp/station.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "transports/shared.h"
#include "transports/tcp/arrivals.h"
#include "transports/tcp/connection.h"
#include "transports/tcp/listener.h"

/* The maximum of events that one call handles. */
#define EVENTS_MAX 64

/* ---- Use ----------------------------------------------------------------------------------- */

void rd_tcp_station_lock(struct rd_tcp_station *station, const struct rd_tcp_connector *connector)
{
	pthread_mutex_lock(&station->lock);
	station->reader = connector;
}

/* The others' epolls have reported the event that this thread has taken: their threads may not have
   found what it left for them. */
void rd_tcp_station_unlock(struct rd_tcp_station *station)
{
	bool others = station->others && station->shared;

	station->others = false;
	pthread_mutex_unlock(&station->lock);
	if (others)
		eventfd_write(station->shared->wake_fd, 1);
}

/* Fetches one event at a time: its handler may free the source of the next. */
bool rd_tcp_station_poll(struct rd_tcp_station *station)
{
	struct epoll_event event;
	const struct rd_event_source *source;
	bool moved = false;

	/* Another thread may have accepted them. */
	if (station->come && atomic_exchange(&station->come->due, false))
		rd_tcp_arrivals_serve(station);
	for (int i = 0; i < EVENTS_MAX; i++) {
		if (epoll_wait(station->epoll_fd, &event, 1, 0) != 1)
			return moved;
		source = event.data.ptr;
		moved |= source->handle(source->owner);
	}
	/* Some may be left, which no sleeper's epoll reports again. */
	station->others = true;
	return moved;
}

static bool timer_handle(void *owner)
{
	struct rd_tcp_station *station = owner;

	if (rd_tcp_timer_expired(&station->timer)) {
		rd_tcp_connections_check(station);
		rd_tcp_arrivals_serve(station);
	}
	return false;
}

/* ---- Life ---------------------------------------------------------------------------------- */

void rd_tcp_station_close(struct rd_tcp_station *station)
{
	rd_tcp_early_refuse(&station->early, 0);
	rd_tcp_arrivals_end(station);
	rd_event_close(station->epoll_fd, &station->timer.fd);
}

static void destroy(struct rd_tcp_station *station)
{
	rd_tcp_station_close(station);
	if (station->epoll_fd >= 0)
		close(station->epoll_fd);
	pthread_mutex_destroy(&station->lock);
	free(station);
}

static int start(struct rd_tcp_station *station, const struct rd_local *local)
{
	int err = rd_interfaces_choose(&station->interfaces, local->settings);

	if (err)
		return err;
	station->epoll_fd = rd_above_stderr(epoll_create1(EPOLL_CLOEXEC));
	station->timer.fd =
		rd_above_stderr(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (station->epoll_fd < 0 || station->timer.fd < 0 ||
		rd_event_watch(station->epoll_fd, EPOLL_CTL_ADD, station->timer.fd, EPOLLIN,
			&station->timer_source) ||
		(!station->shared && rd_event_watch(local->epoll_fd, EPOLL_CTL_ADD,
					     station->epoll_fd, EPOLLIN | EPOLLET, NULL)))
		return rd_fail_errno("cannot make a timer and an epoll");
	err = rd_tcp_arrivals_start(station, local);
	return err ? err : rd_tcp_listen(station, local);
}

static int create(
	struct rd_tcp_station **made, const struct rd_local *local, struct rd_shared *shared)
{
	struct rd_tcp_station *station = calloc(1, sizeof(*station));
	int err;

	*made = NULL;
	if (!station)
		return rd_fail(RONDO_MEMORY, "no memory for a tcp station");
	station->shared = shared;
	station->rank = local->rank;
	station->references = 1;
	station->epoll_fd = station->timer.fd = -1;
	station->timer_source = (struct rd_event_source){ timer_handle, station };
	pthread_mutex_init(&station->lock, NULL);
	err = start(station, local);
	if (err)
		destroy(station);
	else
		*made = station;
	return err;
}

int rd_tcp_station_join(
	struct rd_tcp_station **station, const struct rd_local *local, struct rd_shared *shared)
{
	int err = 0;

	if (!shared)
		return create(station, local, NULL);
	pthread_mutex_lock(&shared->stations);
	if (shared->tcp)
		shared->tcp->references++;
	else
		err = create(&shared->tcp, local, shared);
	*station = shared->tcp;
	pthread_mutex_unlock(&shared->stations);
	return err;
}

void rd_tcp_station_leave(struct rd_tcp_station *station)
{
	struct rd_shared *shared = station->shared;

	if (!shared) {
		destroy(station);
		return;
	}
	pthread_mutex_lock(&shared->stations);
	if (--station->references == 0) {
		shared->tcp = NULL;
		destroy(station);
	}
	pthread_mutex_unlock(&shared->stations);
}

void rd_tcp_station_abandon(struct rd_tcp_station *station)
{
	if (--station->references > 0)
		return;
	rd_tcp_early_refuse(&station->early, 0);
	if (station->timer.fd >= 0)
		close(station->timer.fd);
	close(station->epoll_fd);
	free(station);
}
