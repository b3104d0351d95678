/*
 * Which transports are used here, and which of them is to carry a pair of ranks (route.c); opening
 * and trying the links (connect.c).
 */
#ifndef RD_ROUTE_H
#define RD_ROUTE_H

#include "comm/comm.h"

/*
 * The cheapest transport that reaches a peer, of those that are not barred (bit: its index in
 * comm->endpoints); NULL: none. Where what is barred is the same on both sides, so is the answer.
 */
struct rd_endpoint *rd_route_cheapest(
	const struct rondo_comm *comm, const struct rd_member *members, int peer, unsigned barred);

/* A member's card of a transport; NULL: it has none. */
const struct rd_card *rd_route_card(
	const struct rd_member *member, const struct rd_transport *transport);

#endif
