/*
 * Wires with a valid hello that came before their connection begins: one at most for each.
 */
#ifndef RD_TCP_EARLY_H
#define RD_TCP_EARLY_H

#include "net/wire.h"
#include "transports/tcp/card.h"

struct rd_tcp_connector;
struct rd_tcp_early;

/* Takes over the wire; closes it where another is here. */
void rd_tcp_early_keep(
	struct rd_tcp_connector *connector, struct rd_wire *wire, const struct rd_tcp_hello *hello);

/* Hands over the wire of this connection, with its hello. False: there is none. */
bool rd_tcp_early_take(struct rd_tcp_connector *connector, int from, int channel,
	struct rd_wire *wire, struct rd_tcp_hello *hello);

/* Closes all of them. */
void rd_tcp_early_close(struct rd_tcp_connector *connector);

#endif
