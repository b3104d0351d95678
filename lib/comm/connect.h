/* Connecting: what is opened at once, at the creation of a comm or ahead of a call. */
#ifndef RD_CONNECT_H
#define RD_CONNECT_H

#include "comm/comm.h"
#include "plan/peer_set.h"

/*
 * Agrees with all ranks on the limits of links, from their cards, and opens those between hosts
 * that rings use: so a wrong network is an error here. Waits until all ranks have come this far.
 * Sets comm->piece_size, comm->maps, comm->rails and comm->costs.cores. The caller has the links
 * (hold.h). known: the limits of this rank's links, which are all within a host, as passed to
 * rd_control_create(): nothing remains to be agreed on. NULL: they are not. Returns 0 or an error.
 */
int rd_connect(struct rondo_comm *comm, const struct rd_link_limits *known);

/* Opens the links to these peers, and waits until they are open. Returns 0 or an error. */
int rd_connect_now(struct rondo_comm *comm, const struct rd_peer_set *peers);

#endif
