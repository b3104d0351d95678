/*
 * The connector of an endpoint: connects this rank with its peers by TCP sockets. It holds all that
 * connections share: the door, the card of this endpoint, an epoll and a timer. One thread at a
 * time uses it.
 */
#ifndef RD_TCP_CONNECTOR_H
#define RD_TCP_CONNECTOR_H

#include "rondo/transport.h"
#include "transports/event_source.h"
#include "transports/tcp/arrivals.h"
#include "transports/tcp/card.h"
#include "transports/tcp/connection.h"
#include "transports/tcp/early.h"
#include "transports/tcp/interface.h"
#include "transports/tcp/listener.h"
#include "transports/tcp/timer.h"

struct rd_tcp_connector {
	const struct rd_local *local;
	struct rd_interfaces interfaces;
	struct rd_tcp_card card; /* of this endpoint */
	int epoll_fd; /* is in the driver's epoll; the owner may add sources of its own */
	struct rd_tcp_timer timer;
	struct rd_event_source timer_source;
	struct rd_tcp_arrivals arrivals;
	struct rd_tcp_early *early; /* a list */
	struct rd_tcp_connection *connections; /* all, from begin() to stop() */
	int unfinished; /* of them: neither open nor failed */
};

/* Chooses interfaces and listens there. `local` outlives the connector. After an error nothing is
   left to finish. */
int rd_tcp_connector_start(struct rd_tcp_connector *connector, const struct rd_local *local);

/* Handles all events in the epoll, those of the owner's sources too. True: a handler returned
   true. */
bool rd_tcp_connector_advance(struct rd_tcp_connector *connector);

/* Accepts and connects no more. The epoll holds the owner's sources alone, and the connector no
   connection. */
void rd_tcp_connector_stop(struct rd_tcp_connector *connector);
/* Closes the epoll; stops before, if that has not been done. */
void rd_tcp_connector_finish(struct rd_tcp_connector *connector);
/* The same in a forked child: sockets and epolls are the parent's as well, and stay as they are. */
void rd_tcp_connector_abandon(struct rd_tcp_connector *connector);

#endif
