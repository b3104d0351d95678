/*
 * Connecting: opens the links of a comm. A link is opened when a call of either rank first needs
 * it. The rank that needs it opens its end, and the coordinator tells the other one, whose control
 * thread opens the other end where no call of that rank does.
 */
#ifndef RD_CONNECT_H
#define RD_CONNECT_H

#include "comm/comm.h"
#include "plan/peer_set.h"

/*
 * Agrees with all ranks on the limits of links, from their cards, and opens those between hosts
 * that rings use: so a wrong network is an error here. Waits until all ranks have come this far.
 * Sets comm->piece_size, comm->maps and comm->rails. Returns 0 or an error.
 */
int rd_connect(struct rondo_comm *comm);

/* With the links held (hold.h), the next three: */

/* Whether the links to these peers are open. Opens those that are not, some at a time: call
   rd_connect_step() and this again until they are. */
bool rd_connect_reach(struct rondo_comm *comm, const struct rd_peer_set *peers);
/* The first of them whose link is not open; -1: none. */
int rd_connect_awaited(const struct rondo_comm *comm, const struct rd_peer_set *peers);
/* Opens links further, also those that other ranks need. True: something moved. An error is
   reported to the coordinator, and its verdict ends the comm. */
bool rd_connect_step(struct rondo_comm *comm);

/* Opens the links to these peers, and waits until they are open. Returns 0 or an error. */
int rd_connect_now(struct rondo_comm *comm, const struct rd_peer_set *peers);

/* For struct rd_control_links: owner is a comm. */
enum rd_links_state rd_connect_serve(void *owner);

/* Frees what was being opened, before or after the endpoints are closed. */
void rd_connecting_finish(struct rondo_comm *comm);

#endif
