/*
 * The handshake of tcp: the connections of links that are not open yet. The higher rank tries the
 * lower rank's addresses in turn; then both send a hello. tcp.c describes the exchange.
 */
#ifndef RD_TCP_HANDSHAKE_H
#define RD_TCP_HANDSHAKE_H

#include "transports/tcp/card.h"
#include "transports/tcp/link.h"
#include "transports/tcp/strangers.h"

/* Begins the handshake of a new link. The higher rank connects. The lower one takes the stranger
   that has come early, if there is one. The link opens or fails now, or by an event. */
void rd_tcp_handshake_begin(struct rd_tcp_link *link, struct rd_tcp_strangers *strangers);

/* Offers a connection with a valid hello to its link: see strangers.h. */
enum rd_tcp_admission rd_tcp_handshake_admit(
	void *endpoint, int fd, const struct rd_tcp_hello *hello);

/* Ends attempts whose time is over, and requests the timer for the others. */
void rd_tcp_handshake_check(struct rd_tcp_endpoint *endpoint);

#endif
