#include "transports/tcp/connector.h"

int rd_tcp_connector_start(
	struct rd_tcp_connector *connector, const struct rd_local *local, struct rd_shared *shared)
{
	*connector = (struct rd_tcp_connector){ .local = local };
	return rd_tcp_station_join(&connector->station, local, shared);
}

/* Returns the place of the connector in its station's list; it holds NULL before the first
   connection: before that, the comm may have no id. */
static struct rd_tcp_connector **place(struct rd_tcp_connector *connector)
{
	struct rd_tcp_connector **at = &connector->station->connectors;

	while (*at && *at != connector)
		at = &(*at)->next;
	return at;
}

/* Events of the station wake those alone that connect: the kernel lets few epolls watch an epoll.
   Where it refuses, one of the others that watch wakes this one. */
static void watch(struct rd_tcp_connector *connector, int operation)
{
	if (connector->station->shared)
		rd_event_watch(connector->local->epoll_fd, operation, connector->station->epoll_fd,
			EPOLLIN | EPOLLET, NULL);
}

static bool deliver(struct rd_tcp_connector *connector)
{
	bool stirred = connector->stirred;
	int delivered = stirred ? rd_tcp_connections_deliver(connector) : 0;

	connector->stirred = false;
	connector->unfinished -= delivered;
	if (delivered > 0 && connector->unfinished == 0)
		watch(connector, EPOLL_CTL_DEL);
	return stirred;
}

void rd_tcp_connector_begin(
	struct rd_tcp_connector *connector, struct rd_tcp_connection *connection)
{
	rd_tcp_station_lock(connector->station, connector);
	if (connector->unfinished++ == 0)
		watch(connector, EPOLL_CTL_ADD);
	*place(connector) = connector;
	rd_tcp_connection_begin(connection);
	deliver(connector);
	rd_tcp_station_unlock(connector->station);
}

bool rd_tcp_connector_advance(struct rd_tcp_connector *connector)
{
	bool moved;

	rd_tcp_station_lock(connector->station, connector);
	moved = rd_tcp_station_poll(connector->station);
	moved |= deliver(connector);
	rd_tcp_station_unlock(connector->station);
	return moved;
}

void rd_tcp_connector_stop(struct rd_tcp_connector *connector)
{
	struct rd_tcp_station *station = connector->station;
	struct rd_tcp_connector **at;

	rd_tcp_station_lock(station, connector);
	if (connector->unfinished > 0)
		watch(connector, EPOLL_CTL_DEL);
	at = place(connector);
	if (*at)
		*at = connector->next;
	for (; connector->connections; connector->connections = connector->connections->next)
		rd_tcp_wire_close(station->epoll_fd, &connector->connections->wire);
	if (station->shared)
		rd_tcp_early_refuse(&station->early, connector->local->comm_id);
	else
		rd_tcp_station_close(station);
	rd_tcp_station_unlock(station);
}

void rd_tcp_connector_finish(struct rd_tcp_connector *connector)
{
	rd_tcp_station_leave(connector->station);
}

/* Without the epoll, nothing is removed from it. */
bool rd_tcp_connector_abandon(struct rd_tcp_connector *connector)
{
	/* The rule of base/fork.h. */
	if (pthread_mutex_trylock(&connector->station->lock))
		return false;
	for (; connector->connections; connector->connections = connector->connections->next)
		rd_wire_close(&connector->connections->wire);
	pthread_mutex_unlock(&connector->station->lock);
	rd_tcp_station_abandon(connector->station);
	return true;
}
