/*
 * The sockets of control connections: finding rank 0's address, listening there, connecting to it.
 * All sockets are non-blocking and close on exec.
 */
#ifndef RD_SOCKET_H
#define RD_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "net/address.h"

/*
 * Resolves settings->address:port. Where the name has no address yet, retries until deadline_ms;
 * one attempt may take as long as the resolver's own timeout.
 */
int rd_resolve(
	struct rd_addresses *addresses, const struct rd_settings *settings, int64_t deadline_ms);

/*
 * A listening socket, for rank 0: settings->rendezvous_fd where that is given (it is closed on a
 * failure, unless it is no listening socket at all), else on the first of the addresses that is one
 * of this host.
 */
int rd_listen(int *fd, const struct rd_addresses *addresses, const struct rd_settings *settings);

/* A socket that is bound to the address at this port, whatever the address has; 0: any. -1 and
   errno. */
int rd_bind(const struct sockaddr_storage *address, int port);
/* The same, and it listens. */
int rd_listen_at(const struct sockaddr_storage *address, int port);
/* Where a socket listens: a numeric address, or "" where that is any of this host. 0, or -1 and
   errno. */
int rd_socket_place(int fd, char address[RD_NUMERIC_ADDRESS], uint32_t *port);

/* Starts to connect: the socket, or -1 and errno. It becomes writable when the attempt ends. */
int rd_connect_start(const struct rd_addresses *addresses, int index);
/* The result of the attempt: 0, or its errno. */
int rd_connect_finish(int fd);

/* The next connection, or -1 and errno. */
int rd_accept(int fd);

/* Whether this errno means that a socket which does not block may be tried again. */
bool rd_is_temporary(int error);
/* Whether this errno means that this process or host has no more sockets or memory. */
bool rd_lacks_resources(int error);
/* Whether a filter or a policy refuses the system call: it does so again. */
bool rd_is_forbidden(int error);

/* Whether another attempt to connect would end in this error of rd_connect_start() too. A route may
   still come (ENETUNREACH): a host that boots waits for its addresses. */
bool rd_is_permanent(int error);

/*
 * No delay for small messages. The kernel asks the other host's whether it is there, once a second
 * while nothing is sent. The connection fails timeout_ms after the last answer; where a message was
 * sent since, timeout_ms after that. A stopped process does not matter: its kernel answers.
 */
void rd_socket_tune(int fd, int timeout_ms);

/* Whether both ends of a connection have one address, and so one kernel. */
bool rd_socket_is_near(int fd);

#endif
