/*
 * A station: the network interfaces of one rank, its listener (bootstrap/listener.h), and an epoll
 * for all that connects. The connectors of all comms of a job share one. A hello names its comm, so
 * each arrival finds its connector. It lives as long as one of them.
 *
 * Any thread that waits for one of the comms handles the events of all, under the station's lock.
 * Each connector then finds its own (rd_tcp_stir()).
 */
#ifndef RD_TCP_STATION_H
#define RD_TCP_STATION_H

#include <pthread.h>

#include "bootstrap/listener.h"
#include "rondo/transport.h"
#include "transports/event_source.h"
#include "transports/tcp/card.h"
#include "transports/tcp/congestion.h"
#include "transports/tcp/early.h"
#include "transports/tcp/interface.h"
#include "transports/tcp/timer.h"

struct rd_tcp_connector;

struct rd_tcp_station {
	struct rd_shared *shared; /* with other connectors; NULL: with none */
	int references; /* under the lock of what is shared */
	int rank; /* in the job's first comm, for log lines */
	struct rd_interfaces interfaces;
	struct rd_tcp_card card;
	char congestion[RD_TCP_CONGESTION_NAME]; /* control that this host's sockets begin with */
	/* In the comm's epoll of those that connect. A connector that has the station alone may add
	   sources of its own, and has it there all the time. */
	int epoll_fd;
	struct rd_listener *listener; /* the rank's, or with no other connector its own */
	struct rd_arrivals *come; /* there; NULL: closed */
	bool strips; /* behind a hello all bytes are plain: rd_wire_strip() */

	pthread_mutex_t lock;
	/* Under the lock: */
	struct rd_tcp_timer timer;
	struct rd_event_source timer_source, listener_source;
	bool warned; /* that no connection can be accepted */
	struct rd_tcp_early_wires early;
	struct rd_tcp_connector *connectors; /* from their first connection on */
	const struct rd_tcp_connector *reader; /* whose thread has the lock */
	bool others; /* something is due to other ones */
};

/* The station of the job, or where `shared` is NULL a new one. Chooses interfaces and listens
   there. Errors: as rd_interfaces_choose(), RONDO_MEMORY, RONDO_SYSTEM. */
int rd_tcp_station_join(
	struct rd_tcp_station **station, const struct rd_local *local, struct rd_shared *shared);
/* For as many connectors as have joined. The last one closes all. */
void rd_tcp_station_leave(struct rd_tcp_station *station);
/* The same in a forked child, where sockets and epolls are the parent's as well. */
void rd_tcp_station_abandon(struct rd_tcp_station *station);

/* Around all use of connections, by the connector's thread. */
void rd_tcp_station_lock(struct rd_tcp_station *station, const struct rd_tcp_connector *connector);
/* Wakes threads that use other connectors, if something is due to them. */
void rd_tcp_station_unlock(struct rd_tcp_station *station);

/* Under the lock: handles all events in the epoll. True: a handler returned true. */
bool rd_tcp_station_poll(struct rd_tcp_station *station);
/* Under the lock: accepts no more. The epoll holds connections and the owner's sources alone. */
void rd_tcp_station_close(struct rd_tcp_station *station);

#endif
