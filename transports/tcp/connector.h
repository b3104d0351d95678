/*
 * The connector of an endpoint: connects this rank with its peers in one comm by TCP sockets, at
 * the station of its job. One thread at a time uses it.
 */
#ifndef RD_TCP_CONNECTOR_H
#define RD_TCP_CONNECTOR_H

#include "rondo/transport.h"
#include "transports/tcp/connection.h"
#include "transports/tcp/station.h"

struct rd_tcp_connector {
	const struct rd_local *local;
	struct rd_tcp_station *station; /* its epoll holds no link's socket by itself */
	/* Under the station's lock, also for other threads: */
	int unfinished; /* connections whose owner does not know yet how they ended */
	struct rd_tcp_connection *connections; /* all, from begin() to stop() */
	bool stirred; /* since the last advance() */
	struct rd_tcp_connector *next; /* at the station */
};

/* Joins the station of the job that `shared` belongs to, or where it is NULL a new one. `local`
   outlives the connector. Errors: as rd_tcp_station_join(). */
int rd_tcp_connector_start(
	struct rd_tcp_connector *connector, const struct rd_local *local, struct rd_shared *shared);

/* Adds a connection, and begins its handshake. */
void rd_tcp_connector_begin(
	struct rd_tcp_connector *connector, struct rd_tcp_connection *connection);

/* Handles all events of the station, those of the owner's sources too. True: one of the connections
   has moved, or a handler returned true. */
bool rd_tcp_connector_advance(struct rd_tcp_connector *connector);

/* Accepts and connects no more, and holds no connection. The epoll of a station that is the
   connector's alone holds the owner's sources alone. */
void rd_tcp_connector_stop(struct rd_tcp_connector *connector);
/* Leaves the station, after stop(). */
void rd_tcp_connector_finish(struct rd_tcp_connector *connector);
/* In place of both in a forked child: sockets and epolls are the parent's as well. False: a thread
   of the parent had the station, and the owner is left as it is, too. */
bool rd_tcp_connector_abandon(struct rd_tcp_connector *connector);

/* Under the station's lock: something has moved, which the connector's thread is to find. */
static inline void rd_tcp_stir(struct rd_tcp_connector *connector)
{
	connector->stirred = true;
	connector->station->others |= connector->station->reader != connector;
}

#endif
