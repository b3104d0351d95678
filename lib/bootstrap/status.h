/*
 * A Unix socket at which a process of the same user, or root, asks for a status: `rondo-run
 * --status`. Its name is abstract (unix(7)): RD_STATUS_NAME, the process, a number, and the launch
 * (bootstrap/inherited.h). So it is gone with its process, and RD_STATUS_SOCKETS lists all. A
 * connection gets a text, and is closed. The text fits the socket's buffer, so nobody is waited
 * for.
 */
#ifndef RD_STATUS_H
#define RD_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/close_on_fork.h"

#define RD_STATUS_NAME "rondo-status"
#define RD_STATUS_SOCKETS "/proc/net/unix"
#define RD_STATUS_MAX 16384 /* bytes of a text; a socket's buffer holds more */

struct rd_status {
	int listen_fd; /* -1: none */
	struct rd_close_on_fork unshared;
};

/* On an error there is no socket, and errno says why. For one thread at a time. */
int rd_status_open(struct rd_status *status, uint64_t launch_id);
/* Also where none was opened. */
void rd_status_close(struct rd_status *status);

/* Returns a connection of a process that may ask. -1: none waits, or errno says why none can be
   accepted. Takes no more than a few that may not ask, and hangs up on them. */
int rd_status_accept(struct rd_status *status);
/* Sends the text, and closes the connection. */
void rd_status_send(int fd, const char *text, size_t size);

#endif
