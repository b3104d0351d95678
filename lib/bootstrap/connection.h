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
	bool connecting; /* the owner's */
	size_t in_size, out_size, out_at;
	unsigned char in[RD_FRAME_MAX];
	unsigned char out[2 * RD_FRAME_MAX];
};

/* Takes over fd, and has the epoll watch it for these events, reported with this mark. NULL: no
   memory; the socket is closed. */
struct rd_connection *rd_connection_open(int epoll_fd, int fd, uint64_t mark, uint32_t events);
/* Sets *connection to NULL, which it may be. */
void rd_connection_close(struct rd_connection **connection);
/* Frees in a forked child; NULL is none. */
void rd_connection_abandon(struct rd_connection *connection);

void rd_connection_watch(struct rd_connection *connection, uint32_t events);

/* Reads once. True: bytes came, or may come later; false: the connection has ended, with *error. */
bool rd_connection_read(struct rd_connection *connection, int *error);
/* The next message that has arrived whole: 1; 0: none; RONDO_PROTOCOL. */
int rd_connection_take(struct rd_connection *connection, struct rd_control_message *message);

/* Whether one more message can be put, to be sent by rd_connection_flush(). */
bool rd_connection_has_room(const struct rd_connection *connection);
void rd_connection_put(struct rd_connection *connection, struct rd_control_message *message);
/* Sends what was put, or as much as the socket takes. False: the connection has ended, with *error.
 */
bool rd_connection_flush(struct rd_connection *connection, int *error);

#endif
