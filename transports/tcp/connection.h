/*
 * A connection of this rank with a peer, for one channel: a TCP socket, on which each side has
 * proved by a hello that it is a rank of this comm. The higher rank tries the lower rank's
 * addresses in turn; where they are on different hosts, both prove that they have the job's secret;
 * then both send a hello. tcp.c describes the exchange.
 *
 * Where the network resets the socket, the owner may have the connection go on over another one
 * (secure/resume.h). The higher rank connects again. The lower one takes that, whether it has
 * noticed the reset or not. A peer that has ended never comes. So the lower rank also connects to
 * the peer's listener, and drops that connection: only the kernel of an ended process refuses it.
 */
#ifndef RD_TCP_CONNECTION_H
#define RD_TCP_CONNECTION_H

#include "topo/place.h"
#include "rondo/transport.h"
#include "transports/event_source.h"
#include "transports/tcp/card.h"
#include "transports/tcp/strangers.h"

struct rd_tcp_connector;

enum rd_tcp_connection_state {
	RD_TCP_AWAITED, /* the peer connects */
	RD_TCP_PROBING, /* likewise, to go on; a probe of the peer's listener is under way */
	RD_TCP_RESTING, /* until until_ms, before the next attempt to go on */
	RD_TCP_CONNECTING, /* to the peer */
	RD_TCP_PROVING, /* connected; the peer's proof is due */
	RD_TCP_GREETED, /* hello sent; the peer's hello is due */
	RD_TCP_OPENED,
	RD_TCP_FAILED,
};

/* The owner sets the fields above the line, and leaves all others zero. */
struct rd_tcp_connection {
	struct rd_tcp_connector *connector;
	int peer, channel;
	struct rd_tcp_card card; /* the peer's, from rd_tcp_card_read() */
	/*
	 * One of the two is called, once after begin() and after each again(): by these, or while
	 * the connector advances. opened() takes over the wire: it is in no epoll, and all bytes
	 * behind the hello are its own.
	 */
	void (*opened)(void *owner, const struct rd_wire *wire);
	void (*failed)(void *owner, int error, const char *reason);
	/* The peer connects again: calls again(). NULL: the connection ends with its socket. */
	void (*interrupted)(void *owner);
	void *owner;
	uint64_t received; /* by the owner, when it calls again() */
	/* ---- */
	enum rd_tcp_connection_state state;
	struct rd_wire wire; /* of this attempt */
	int attempt; /* number of the addresses tried before */
	bool goes_on; /* it was open before */
	uint32_t resumes; /* the number of attempts to go on, as in the hello */
	unsigned in_vain; /* bits: indices of the addresses tried in vain */
	/* Then the next address is tried; INT64_MAX: this is the last. To go on, where the peer
	   connects: the end of a probe, or the time of the next one. */
	int64_t until_ms;
	struct sockaddr_storage address; /* the peer's, of this attempt */
	struct rd_tcp_hello hello; /* the peer's: hello_size bytes have arrived */
	size_t hello_size;
	struct rd_event_source source;
	struct rd_tcp_connection *next;
};

/* Adds a connection to its connector, and begins the handshake. The higher rank connects. The lower
   one takes the stranger that has come early, if there is one. */
void rd_tcp_connection_begin(struct rd_tcp_connection *connection);

/* The connection was open, and its socket has failed: goes on over another one. */
void rd_tcp_connection_again(struct rd_tcp_connection *connection);

/* Whether the peer is on another host, on the way to which a network may reset connections. */
bool rd_tcp_connection_is_far(const struct rd_tcp_connection *connection);

/* Offers a wire with a valid hello to its connection: see strangers.h. */
enum rd_tcp_admission rd_tcp_connections_admit(
	void *connector, struct rd_wire *wire, const struct rd_tcp_hello *hello);

/* Ends attempts whose time is over, and requests the timer for the others. */
void rd_tcp_connections_check(struct rd_tcp_connector *connector);

/* Fails the connections whose peers were to connect. number: errno. */
void rd_tcp_connections_fail_awaited(struct rd_tcp_connector *connector, int number);

#endif
