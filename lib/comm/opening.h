/*
 * Opening: a link is opened when a call of either rank first needs it. The rank that needs it opens
 * its end, and the coordinator tells the other one, whose control thread opens the other end where
 * no call of that rank does. With the links held (hold.h), but for rd_open_serve().
 */
#ifndef RD_OPENING_H
#define RD_OPENING_H

#include "comm/comm.h"
#include "plan/peer_set.h"

/* ---- For calls ------------------------------------------------------------------------------ */

/* Whether the links to these peers are open. Opens those that are not, some at a time: call
   rd_open_step() and this again until they are. */
bool rd_open_reach(struct rondo_comm *comm, const struct rd_peer_set *peers);
/* The first of them whose link is not open; -1: none. */
int rd_open_awaited(const struct rondo_comm *comm, const struct rd_peer_set *peers);
/* Opens links further, also those that other ranks need. True: something moved. An error is
   reported to the coordinator, and its verdict ends the comm. */
bool rd_open_step(struct rondo_comm *comm);

/* ---- For the control thread ------------------------------------------------------------------ */

/* For struct rd_control_links: owner is a comm. */
enum rd_links_state rd_open_serve(void *owner, int *fd);

/* ---- For the creation of a comm -------------------------------------------------------------- */

/* Opens this end of the link to a peer, which opens the other end by itself. Returns 0 or an error,
   with comm->connecting.culprit. */
int rd_open_begin(struct rondo_comm *comm, int peer);
/* As rd_open_step(), without a report. 1: something moved; 0: nothing did; negative: an error. */
int rd_open_try(struct rondo_comm *comm);
/* No transport is left for a peer: returns the error. */
int rd_open_unreachable(struct rondo_comm *comm, int peer);

/* Frees what was being opened, before or after the endpoints are closed. */
void rd_open_finish(struct rondo_comm *comm);

#endif
