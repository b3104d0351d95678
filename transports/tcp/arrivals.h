/*
 * The door of a connector (net/door.h), and what it hands over. A wire whose hello is valid goes to
 * its connection, or waits until that begins (early.h). Any other is closed without an answer.
 *
 * Where the job has a secret, a rank of another host proves that it has it before its hello.
 */
#ifndef RD_TCP_ARRIVALS_H
#define RD_TCP_ARRIVALS_H

#include "net/door.h"
#include "transports/event_source.h"

struct rd_tcp_connector;

struct rd_tcp_arrivals {
	struct rd_event_source source;
	struct rd_door *door; /* NULL: none */
	bool warned; /* that no connection can be accepted */
};

/* Makes the connector's door, without a listening socket. */
int rd_tcp_arrivals_start(struct rd_tcp_connector *connector);

/* Serves the door, and requests the timer for it. True: a connection has taken a wire. */
bool rd_tcp_arrivals_serve(struct rd_tcp_connector *connector);

/* Closes the door, and the wires that came early. */
void rd_tcp_arrivals_finish(struct rd_tcp_connector *connector);
/* The same in a forked child. */
void rd_tcp_arrivals_abandon(struct rd_tcp_connector *connector);

#endif
