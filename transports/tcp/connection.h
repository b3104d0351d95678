/*
 * A connection of this rank with a peer, for one channel: a TCP socket, on which each side has
 * proved by a hello that it is a rank of this comm. The higher rank tries the lower rank's
 * addresses in turn; where they are on different hosts, both prove that they have the job's secret;
 * then both send a hello. tcp.c describes the exchange.
 */
#ifndef RD_TCP_CONNECTION_H
#define RD_TCP_CONNECTION_H

#include "topo/place.h"
#include "rondo/transport.h"
#include "net/wire.h"
#include "transports/event_source.h"
#include "transports/tcp/card.h"

#define RD_TCP_REASON_MAX sizeof(((struct rd_link *)0)->reason)

struct rd_tcp_connector;
struct rd_tcp_station;

enum rd_tcp_connection_state {
	RD_TCP_AWAITED, /* the peer connects */
	RD_TCP_RESTING, /* between two attempts at the peer's addresses */
	RD_TCP_CONNECTING, /* to the peer */
	RD_TCP_PROVING, /* connected; the peer's proof is due */
	RD_TCP_GREETED, /* hello sent; the peer's hello is due */
	RD_TCP_OPENED,
	RD_TCP_FAILED,
	RD_TCP_DELIVERED, /* opened() or failed() has been called */
};

/* The owner sets the fields above the line, and leaves all others zero. */
struct rd_tcp_connection {
	struct rd_tcp_connector *connector;
	int peer, channel;
	struct rd_tcp_card card; /* the peer's, from rd_tcp_card_read() */
	/*
	 * One of the two is called, once, with the station's lock: by rd_tcp_connector_begin(), or
	 * while the connector advances. opened() takes over the wire: it is in no epoll, and all
	 * bytes behind the hello are its own.
	 */
	void (*opened)(void *owner, const struct rd_wire *wire);
	void (*failed)(void *owner, int error, const char *reason);
	void *owner;
	/* ---- */
	enum rd_tcp_connection_state state;
	int error; /* of a failed one, */
	char reason[RD_TCP_REASON_MAX]; /* and why */
	struct rd_wire wire; /* of this attempt */
	int attempt; /* number of the addresses tried before */
	bool on_device; /* this attempt is bound to a contested interface */
	bool off_device; /* none is any more: one has failed */
	unsigned in_vain; /* bits: indices of the addresses tried in vain */
	int64_t until_ms; /* then the next address is tried; INT64_MAX: this is the last */
	int64_t give_up_ms; /* until when refusals and resets are tried again */
	struct sockaddr_storage address; /* the peer's, of this attempt */
	struct rd_tcp_hello hello; /* the peer's: hello_size bytes have arrived */
	size_t hello_size;
	struct rd_event_source source;
	struct rd_tcp_connection *next;
};

/* All under the station's lock. */

/* Adds a connection to its connector, and begins the handshake. The higher rank connects. The lower
   one takes the wire that has come early, if there is one. */
void rd_tcp_connection_begin(struct rd_tcp_connection *connection);

/* Hands a wire with a valid hello over to its connection, which may refuse it. False: that has not
   begun, and the wire stays the caller's. */
bool rd_tcp_connections_admit(
	struct rd_tcp_connector *connector, struct rd_wire *wire, const struct rd_tcp_hello *hello);

/* Calls opened() or failed() of those for which it is due: returns their number. */
int rd_tcp_connections_deliver(struct rd_tcp_connector *connector);

/* Ends attempts whose time is over, and requests the timer for the others. */
void rd_tcp_connections_check(struct rd_tcp_station *station);

/* Removes a wire from the epoll, as rd_event_close(), and closes it. */
void rd_tcp_wire_close(int epoll_fd, struct rd_wire *wire);

/* Fails the connections whose peers were to connect. number: errno. */
void rd_tcp_connections_fail_awaited(struct rd_tcp_station *station, int number);

#endif
