/*
 * The listening sockets of tcp: one an interface, and a second one where that is contested.
 */
#ifndef RD_TCP_LISTENER_H
#define RD_TCP_LISTENER_H

struct rd_tcp_connector;

/* Listens on the connector's interfaces for its door, and writes its card with their addresses.
   Removes interfaces in reserve where that fails. RONDO_SYSTEM if it fails on a shared one. */
int rd_tcp_listen(struct rd_tcp_connector *connector);

#endif
