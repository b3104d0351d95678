/*
 * One end of a control connection: a socket that does not block, watched by an epoll, with buffers
 * between its bytes and whole messages (control_message.h). Where the job has a secret, no message
 * moves before the other end has proved that it has it, too.
 */
#ifndef RD_CONNECTION_H
#define RD_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/close_on_fork.h"
#include "bootstrap/control_message.h"
#include "net/wire.h"

struct rd_connection {
	int epoll_fd; /* that watches it */
	struct rd_wire wire; /* its fd is -1 in a forked child */
	struct rd_close_on_fork unshared;
	uint64_t mark;
	uint32_t watched; /* epoll events */
	bool near; /* both ends are on this host; known once it is connected */
	uint32_t silent_ms; /* its other end's host owes a packet for so long; 0: it does not */
	size_t in_size, out_size, out_at;
	unsigned char in[RD_FRAME_MAX];
	unsigned char out[2 * RD_FRAME_MAX];
};

/* Takes over fd, and has the epoll watch it for these events, reported with this mark. accepts:
   this end accepted it. NULL: no memory; the socket is closed. */
struct rd_connection *rd_connection_open(int epoll_fd, int fd, uint64_t mark, uint32_t events,
	const struct rd_settings *settings, bool accepts);
/* The same with a wire, which is taken over, too. */
struct rd_connection *rd_connection_adopt(
	int epoll_fd, struct rd_wire *wire, uint64_t mark, uint32_t events);
/* Closes, frees and sets *connection to NULL, which it may be already. */
void rd_connection_close(struct rd_connection **connection);
/* The same by a reset: an end without one is a death to the other side (rendezvous.h). */
void rd_connection_abort(struct rd_connection **connection);
/* Frees in a forked child; NULL is none. */
void rd_connection_abandon(struct rd_connection *connection);

/* The errno for rendezvous.h of a connection that ended with this one. */
int rd_connection_judge(const struct rd_connection *connection, int error);

void rd_connection_watch(struct rd_connection *connection, uint32_t events);

/* Whether the other end has proved itself, or has shown the secret and may do so. */
bool rd_connection_is_promising(const struct rd_connection *connection);

/* Reads once: 1: bytes have come; 0: they may come later; -1: the connection has ended; *error is
   its errno, 0 for an end of file. Read until it is 0: the epoll reports no bytes that TLS has. */
int rd_connection_read(struct rd_connection *connection, int *error);
/* The next complete message: 1; 0: none; RONDO_PROTOCOL. */
int rd_connection_take(struct rd_connection *connection, struct rd_control_message *message);

/* Whether the buffer has room for one more message. */
bool rd_connection_has_room(const struct rd_connection *connection);
void rd_connection_put(struct rd_connection *connection, struct rd_control_message *message);
/* Sends the buffered messages, or as much as the socket takes. False: the connection has ended;
   *error is its errno. */
bool rd_connection_flush(struct rd_connection *connection, int *error);

#endif
