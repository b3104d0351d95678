/*
 * The listening sockets of tcp: one an interface, and a second one where that is contested.
 */
#ifndef RD_TCP_LISTENER_H
#define RD_TCP_LISTENER_H

#include "transports/tcp/station.h"

/* Listens on the station's interfaces for its door, and writes its card with their addresses.
   Removes interfaces in reserve where that fails. RONDO_SYSTEM if it fails on a shared one. */
int rd_tcp_listen(struct rd_tcp_station *station, const struct rd_local *local);

#endif
