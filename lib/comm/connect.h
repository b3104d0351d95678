/* Connecting: opens the links of a new comm, and tries each before the first call. */
#ifndef RD_CONNECT_H
#define RD_CONNECT_H

#include "comm/comm.h"

/*
 * Opens a link to every peer over the cheapest transport that reaches it, and tries it with a
 * message in each direction. A link that fails gives way to the next transport, on both sides.
 * Waits until all ranks have come this far: from then on links stay as they are. Sets
 * comm->piece_size, comm->maps and comm->rails to the least limits of all ranks. Attaches this
 * process's regions to the endpoints (registration.h). Returns 0 or an error.
 */
int rd_route_connect(struct rondo_comm *comm, const struct rd_member *members);

#endif
