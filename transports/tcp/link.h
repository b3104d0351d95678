/*
 * The links of tcp, and their progress when they are open. A message passes only link.c and
 * stream.c. handshake.c connects the links. One thread at a time uses an endpoint.
 */
#ifndef RD_TCP_LINK_H
#define RD_TCP_LINK_H

#include "rondo/transport.h"
#include "transports/event_source.h"
#include "transports/tcp/card.h"
#include "transports/tcp/interface.h"
#include "transports/tcp/stream.h"
#include "transports/tcp/timer.h"

struct rd_tcp_link;

/* An endpoint, as its links see it. tcp.c creates it. */
struct rd_tcp_endpoint {
	struct rd_endpoint base;
	const struct rd_local *local;
	struct rd_interfaces interfaces;
	struct rd_tcp_card card;
	struct rd_tcp_timer timer;
	int epoll_fd; /* epoll of listeners, timer, strangers, links */
	unsigned calls; /* of advance() since the last poll of events */
	unsigned awake; /* calls of advance() since the links were watched */
	struct rd_tcp_link *links;
	struct rd_tcp_link *read_ahead_at; /* the next one to read ahead; NULL: the first */
	struct rd_tcp_link *queued;
	int unfinished; /* links neither open nor failed */
	bool hung_up; /* at least one link is, and may have messages left */
};

enum rd_tcp_link_state {
	RD_TCP_LINK_AWAITED, /* the peer connects */
	RD_TCP_LINK_CONNECTING, /* to the peer */
	RD_TCP_LINK_GREETED, /* connected and hello sent; the peer's hello is due */
	RD_TCP_LINK_OPEN,
};

struct rd_tcp_link {
	struct rd_link base;
	struct rd_tcp_endpoint *endpoint;
	struct rd_event_source source;
	struct rd_tcp_link *next;
	enum rd_tcp_link_state state;

	/* For the handshake */
	struct rd_tcp_card card; /* the peer's */
	int attempt; /* number of the addresses tried before */
	unsigned failed; /* bits: indices of the addresses tried in vain */
	int64_t until_ms; /* then the next address is tried */
	struct sockaddr_storage address; /* the peer's, of this attempt */
	struct rd_tcp_hello hello; /* the peer's: hello_size bytes have arrived */
	size_t hello_size;

	bool hung_up;
	bool watched; /* by the driver's epoll and ours */
	struct rd_tcp_link *next_queued;
	bool queued; /* is on the endpoint's list of links with output to push */
	struct rd_tcp_stream stream; /* stream.fd is the socket from the first attempt on */
};

/* Creates a link without a connection and adds it to the endpoint's, which owns it. NULL: no
   memory, with a reason. */
struct rd_tcp_link *rd_tcp_link_create(
	struct rd_tcp_endpoint *endpoint, int peer, int channel, const struct rd_tcp_card *card);

/* The handshake on fd is complete: opens the link, which takes ownership of fd. */
void rd_tcp_link_open(struct rd_tcp_link *link, int fd);

/* Fails a link that is not open: "ACTIVITY at ADDRESS: text of `number`"; errno, or 0 for none. */
void rd_tcp_link_fail(struct rd_tcp_link *link, int error, const char *activity, int number);

/* As the functions of struct rd_transport. `base` is that of a struct rd_tcp_endpoint. */
bool rd_tcp_links_advance(struct rd_endpoint *base);
void rd_tcp_links_arm(struct rd_endpoint *base);
void rd_tcp_links_disarm(struct rd_endpoint *base);

/* Waits up to a second for queued messages to leave, then frees the links. */
void rd_tcp_links_close(struct rd_tcp_endpoint *endpoint);
/* In a forked child: closes the descriptors and frees the links, without a shutdown(). */
void rd_tcp_links_abandon(struct rd_tcp_endpoint *endpoint);

#endif
