#include "transports/tcp/connector.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"

/* The maximum of events that one call handles. */
#define EVENTS_MAX 64

static bool timer_handle(void *owner)
{
	struct rd_tcp_connector *connector = owner;
	int unfinished = connector->unfinished;

	if (!rd_tcp_timer_expired(&connector->timer))
		return false;
	rd_tcp_connections_check(connector);
	rd_tcp_arrivals_serve(connector);
	return unfinished > 0;
}

static int open_descriptors(struct rd_tcp_connector *connector)
{
	int err;

	connector->epoll_fd = rd_above_stderr(epoll_create1(EPOLL_CLOEXEC));
	connector->timer.fd =
		rd_above_stderr(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (connector->epoll_fd < 0 || connector->timer.fd < 0)
		return rd_fail_errno("cannot make a socket");
	err = rd_tcp_arrivals_start(connector);
	if (!err)
		err = rd_tcp_listen(connector);
	if (err)
		return err;
	if (rd_event_watch(connector->epoll_fd, EPOLL_CTL_ADD, connector->timer.fd, EPOLLIN,
		    &connector->timer_source) ||
		rd_event_watch(connector->local->epoll_fd, EPOLL_CTL_ADD, connector->epoll_fd,
			EPOLLIN | EPOLLET, NULL))
		return rd_fail_errno("cannot watch a socket");
	return 0;
}

int rd_tcp_connector_start(struct rd_tcp_connector *connector, const struct rd_local *local)
{
	int err;

	*connector = (struct rd_tcp_connector){
		.local = local,
		.epoll_fd = -1,
		.timer.fd = -1,
		.timer_source = { timer_handle, connector },
	};
	err = rd_interfaces_choose(&connector->interfaces, local->settings);
	if (!err)
		err = open_descriptors(connector);
	if (err)
		rd_tcp_connector_finish(connector);
	return err;
}

/* Fetches one event at a time: its handler may free the source of the next. */
bool rd_tcp_connector_advance(struct rd_tcp_connector *connector)
{
	struct epoll_event event;
	const struct rd_event_source *source;
	bool moved = false;

	for (int i = 0; i < EVENTS_MAX; i++) {
		if (epoll_wait(connector->epoll_fd, &event, 1, 0) != 1)
			break;
		source = event.data.ptr;
		moved |= source->handle(source->owner);
	}
	return moved;
}

static void close_connections(struct rd_tcp_connector *connector)
{
	while (connector->connections) {
		rd_tcp_wire_close(connector->epoll_fd, &connector->connections->wire);
		connector->connections = connector->connections->next;
	}
	rd_event_close(connector->epoll_fd, &connector->timer.fd);
}

void rd_tcp_connector_stop(struct rd_tcp_connector *connector)
{
	rd_tcp_arrivals_finish(connector);
	close_connections(connector);
}

void rd_tcp_connector_finish(struct rd_tcp_connector *connector)
{
	rd_tcp_connector_stop(connector);
	if (connector->epoll_fd >= 0)
		close(connector->epoll_fd);
	connector->epoll_fd = -1;
}

/* Without the epoll, nothing is removed from it. */
void rd_tcp_connector_abandon(struct rd_tcp_connector *connector)
{
	close(connector->epoll_fd);
	connector->epoll_fd = -1;
	rd_tcp_arrivals_abandon(connector);
	close_connections(connector);
}
