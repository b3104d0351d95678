/* The choice of transports: for this process, and for each pair of ranks. connect.h opens links. */
#ifndef RD_ROUTE_H
#define RD_ROUTE_H

#include "comm/comm.h"

/* Creates endpoints on every transport that may be used here, and their cards. Returns an error
   where there is none. */
int rd_route_listen(struct rondo_comm *comm, struct rd_card cards[RD_TRANSPORTS_MAX]);

/*
 * The cheapest transport that reaches a peer, except the barred ones (bit: the index in
 * comm->endpoints); NULL: none. Both sides get the same answer where they bar the same transports.
 */
struct rd_endpoint *rd_route_cheapest(
	const struct rondo_comm *comm, const struct rd_member *members, int peer, unsigned barred);

/* A member's card of a transport. False: it has none. */
bool rd_route_card(const struct rondo_comm *comm, int peer, const struct rd_transport *transport,
	struct rd_card *card);

/* The comm has failed: its links neither send nor receive any more, and their messages need no
   memory of callers. Further calls do nothing. */
void rd_route_halt(struct rondo_comm *comm);

/* Closes all endpoints and their links. */
void rd_route_close(struct rondo_comm *comm);
/* The same in a forked child: closes descriptors, and neither sends nor changes memory that the
   parent uses. */
void rd_route_abandon(struct rondo_comm *comm);

#endif
