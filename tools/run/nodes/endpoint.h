/*
 * The address at which agents meet, and sockets that listen there.
 */
#ifndef RUN_NODES_ENDPOINT_H
#define RUN_NODES_ENDPOINT_H

#include <stdbool.h>
#include <sys/socket.h>

#include "net/address.h"
#include "run/nodes/message.h"

/* A name and a port, and the addresses that the name stands for. */
struct endpoint {
	const char *name;
	const char *local; /* --local-addr, where the others reach this node; or NULL */
	int port;
	struct rd_addresses addresses; /* none: the name has not been resolved */
};

/* Resolves the name, which may block. NULL, or why there is no address. */
const char *endpoint_resolve(struct endpoint *endpoint);

/* Whether one of the addresses is this node's own. */
bool endpoint_is_here(const struct endpoint *endpoint);

/* The address of this node that the name stands for; with no name, or where the node has none of
   its addresses, there is none. */
void endpoint_local(struct endpoint *local, const char *name);

/* Whether the local address is one of the endpoint's. */
bool endpoint_is_at(const struct endpoint *endpoint, const struct endpoint *local);

/*
 * Listens at the port, at the local address alone. Where that is NULL or has none, listens at all
 * addresses of this node: one agent may name the node by its address, and another one, on it, by
 * localhost. Returns a non-blocking socket; -1: errno says why.
 */
int endpoint_listen(const struct endpoint *local, int port);

/* As endpoint_listen(), at a free port. Not at `taken`, the endpoint's: those that come there look
   for the meeting. */
int endpoint_listen_beside(const struct endpoint *local, int taken);

/* Holds a free port that is not `taken`, so that the kernel gives it to nobody else; the caller
   closes *fd. Returns the port; -1: there is none. */
int endpoint_reserve(int taken, int *fd);
/* The same for a program, which takes it when nobody holds it: the kernel does not give it. */
int endpoint_reserve_for_program(int taken, int *fd);

/* The numeric address, without the port. An address of IPv4 in one of IPv6 becomes IPv4. */
void endpoint_text(const struct sockaddr *address, char text[ADDRESS_SIZE]);
/* Whether other nodes cannot reach a numeric address. */
bool endpoint_is_loopback(const char *address);

#endif
