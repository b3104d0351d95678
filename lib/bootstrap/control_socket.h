/*
 * One end of a control connection: control messages (control_message.h) over a connection
 * (net/connection.h) that an epoll watches, or over a channel of a trunk (net/trunk.h).
 */
#ifndef RD_CONTROL_SOCKET_H
#define RD_CONTROL_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/control_message.h"
#include "net/connection.h"
#include "net/trunk.h"

struct rd_control_socket {
	struct rd_channel *channel; /* NULL: it has a connection of its own: */
	struct rd_connection connection;
	int epoll_fd; /* that watches it */
	uint64_t mark;
	uint32_t watched; /* epoll events */
	bool connecting; /* rd_control_socket_connect() is due after each of its events */
	bool near; /* both ends are on this host; known once it is connected */
	uint32_t silent_ms; /* its other end's host owes a packet for so long; 0: it does not */
};

/* Connects to this address, and has the epoll watch the socket, whose events have this mark. NULL:
   errno says why. */
struct rd_control_socket *rd_control_socket_dial(int epoll_fd, const struct rd_addresses *addresses,
	int index, uint64_t mark, const struct rd_settings *settings);
/* Takes over a wire, watched for these events. NULL: errno says why; the wire is closed. */
struct rd_control_socket *rd_control_socket_adopt(
	int epoll_fd, struct rd_wire *wire, uint64_t mark, uint32_t events);
/* Takes over a channel, of which each event sets *due. NULL: no memory; the channel is closed. */
struct rd_control_socket *rd_control_socket_join(struct rd_channel *channel, _Atomic bool *due);
/* Closes, as rd_connection_close(), frees and sets *socket to NULL, which it may be already. */
void rd_control_socket_close(struct rd_control_socket **socket, bool resets);

/* The errno for rendezvous.h of a connection that ended with this one. */
int rd_control_socket_judge(const struct rd_control_socket *socket, int error);

int rd_control_socket_fd(const struct rd_control_socket *socket);
/* Whether the socket is connected: 1: from now on, and tuned with this timeout; 0: not yet; -1:
   *error is the errno of the attempt. */
int rd_control_socket_connect(struct rd_control_socket *socket, int timeout_ms, int *error);
/* Whether a channel has had an event since it was read. */
bool rd_control_socket_is_stirred(const struct rd_control_socket *socket);

void rd_control_socket_watch(struct rd_control_socket *socket, uint32_t events);

/* As rd_connection_read(). */
int rd_control_socket_read(struct rd_control_socket *socket, int *error);
/* The next complete message: 1; 0: none; RONDO_PROTOCOL. */
int rd_control_socket_take(struct rd_control_socket *socket, struct rd_control_message *message);

/* Whether there is room for one more message. */
bool rd_control_socket_has_room(const struct rd_control_socket *socket);
void rd_control_socket_put(struct rd_control_socket *socket, struct rd_control_message *message);
bool rd_control_socket_is_flushed(const struct rd_control_socket *socket);
/* Sends the messages, or as much as the socket takes. False: the connection has ended; *error is
   its errno. */
bool rd_control_socket_flush(struct rd_control_socket *socket, int *error);

#endif
