/*
 * One end of a control connection: a socket that does not block, watched by an epoll, with buffers
 * between its bytes and whole messages (control_message.h).
 */
#ifndef RD_CONNECTION_H
#define RD_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/close_on_fork.h"
#include "bootstrap/control_message.h"

struct rd_connection {
	int epoll_fd; /* that watches it */
	int fd; /* -1: in a forked child */
	struct rd_close_on_fork unshared;
	uint64_t mark;
	uint32_t watched; /* epoll events */
	size_t in_size, out_size, out_at;
	unsigned char in[RD_FRAME_MAX];
	unsigned char out[2 * RD_FRAME_MAX];
};

/* Takes over fd, and has the epoll watch it for these events, reported with this mark. NULL: no
   memory; the socket is closed. */
struct rd_connection *rd_connection_open(int epoll_fd, int fd, uint64_t mark, uint32_t events);
/* Closes, frees and sets *connection to NULL, which it may be already. */
void rd_connection_close(struct rd_connection **connection);
/* Frees in a forked child; NULL is none. */
void rd_connection_abandon(struct rd_connection *connection);

void rd_connection_watch(struct rd_connection *connection, uint32_t events);

/* Reads once. True: bytes have come, or may come later; false: the connection has ended; *error is
   its errno, 0 for an end of file. */
bool rd_connection_read(struct rd_connection *connection, int *error);
/* The next complete message: 1; 0: none; RONDO_PROTOCOL. */
int rd_connection_take(struct rd_connection *connection, struct rd_control_message *message);

/* Whether the buffer has room for one more message. */
bool rd_connection_has_room(const struct rd_connection *connection);
void rd_connection_put(struct rd_connection *connection, struct rd_control_message *message);
/* Sends the buffered messages, or as much as the socket takes. False: the connection has ended;
   *error is its errno. */
bool rd_connection_flush(struct rd_connection *connection, int *error);

#endif
