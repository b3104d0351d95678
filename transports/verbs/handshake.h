/*
 * The handshake of a link over its socket, and the end of the peer, which the socket reports.
 * verbs.c describes the exchange.
 */
#ifndef RD_VERBS_HANDSHAKE_H
#define RD_VERBS_HANDSHAKE_H

#include "transports/verbs/link.h"

/* Begins the handshake of a new link with the peer that has this card. The link becomes ready or
   fails now, or while the connector advances. */
void rd_verbs_handshake_begin(struct rd_verbs_link *link, const struct rd_tcp_card *card);

#endif
