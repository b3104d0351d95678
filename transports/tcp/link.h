/*
 * The links of tcp, and their progress when they are open. A message passes only link.c and
 * stream.c. The connector connects the links. One thread at a time uses an endpoint.
 */
#ifndef RD_TCP_LINK_H
#define RD_TCP_LINK_H

#include "rondo/transport.h"
#include "transports/event_source.h"
#include "transports/tcp/card.h"
#include "transports/tcp/connector.h"
#include "transports/tcp/stream.h"

struct rd_tcp_link;

struct rd_tcp_endpoint {
	struct rd_endpoint base;
	const struct rd_local *local;
	struct rd_tcp_connector
		connector; /* the station's epoll has the links, for their end alone */
	unsigned calls; /* of advance() since the last poll of events */
	unsigned awake; /* calls of advance() since the links were watched */
	bool armed; /* a thread sleeps on the links, while others may call advance() */
	struct rd_tcp_link *links;
	struct rd_tcp_link *read_ahead_at; /* the next one to read ahead; NULL: the first */
	struct rd_tcp_link *queued;
	_Atomic bool hung_up; /* at least one link is, and may have messages left */
};

struct rd_tcp_link {
	struct rd_link base;
	struct rd_tcp_endpoint *endpoint;
	struct rd_event_source source;
	struct rd_tcp_link *next;
	struct rd_tcp_connection connection;
	_Atomic bool hung_up;
	bool watched; /* by the comm's epoll and the station's */
	struct rd_tcp_link *next_queued;
	bool queued; /* is on the endpoint's list of links with output to push */
	struct rd_tcp_stream stream; /* stream.fd is -1 until the link is ready */
};

/* Creates a link, which the endpoint owns, and begins to connect it. NULL: no memory, with a
   reason. */
struct rd_tcp_link *rd_tcp_link_create(
	struct rd_tcp_endpoint *endpoint, int peer, int channel, const struct rd_tcp_card *card);

/* As the functions of struct rd_transport. `base` is that of a struct rd_tcp_endpoint. */
bool rd_tcp_links_advance(struct rd_endpoint *base);
void rd_tcp_links_arm(struct rd_endpoint *base);
void rd_tcp_links_disarm(struct rd_endpoint *base);

/* Stops the connector, waits up to a second for queued messages to leave, then frees the links. */
void rd_tcp_links_close(struct rd_tcp_endpoint *endpoint);
/* In a forked child: closes the descriptors and frees the links, without a shutdown(). */
void rd_tcp_links_abandon(struct rd_tcp_endpoint *endpoint);

#endif
