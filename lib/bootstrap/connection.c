#include "bootstrap/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/rendezvous.h"
#include "net/socket.h"

struct rd_connection *rd_connection_adopt(
	int epoll_fd, struct rd_wire *wire, uint64_t mark, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = mark };
	struct rd_connection *connection = calloc(1, sizeof(*connection));

	if (!connection || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wire->fd, &event)) {
		free(connection);
		rd_wire_close(wire);
		return NULL;
	}
	connection->wire = *wire;
	connection->epoll_fd = epoll_fd;
	rd_close_on_fork_add(&connection->unshared, &connection->wire.fd);
	connection->mark = mark;
	connection->watched = events;
	connection->near = rd_socket_is_near(wire->fd);
	return connection;
}

struct rd_connection *rd_connection_open(int epoll_fd, int fd, uint64_t mark, uint32_t events,
	const struct rd_settings *settings, bool accepts)
{
	struct rd_wire wire = RD_WIRE(fd);

	if (settings->has_psk && rd_wire_secure(&wire, accepts, settings->psk)) {
		rd_wire_close(&wire);
		return NULL;
	}
	return rd_connection_adopt(epoll_fd, &wire, mark, events);
}

/* Neither is left to close(): a child of this process may hold a copy. */
static void close_socket(struct rd_connection *connection, bool resets)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	epoll_ctl(connection->epoll_fd, EPOLL_CTL_DEL, connection->wire.fd, NULL);
	/* A connected socket that is disconnected sends a reset (tcp_disconnect() of Linux). */
	if (!resets || connect(connection->wire.fd, &none, sizeof(none)))
		shutdown(connection->wire.fd, SHUT_WR);
	rd_close_on_fork_remove(&connection->unshared);
	rd_wire_close(&connection->wire);
	free(connection);
}

void rd_connection_close(struct rd_connection **connection)
{
	if (*connection)
		close_socket(*connection, false);
	*connection = NULL;
}

void rd_connection_abort(struct rd_connection **connection)
{
	if (*connection)
		close_socket(*connection, true);
	*connection = NULL;
}

int rd_connection_judge(const struct rd_connection *connection, int error)
{
	return connection && connection->near && rd_means_reset(error) ? EPIPE : error;
}

void rd_connection_watch(struct rd_connection *connection, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = connection->mark };

	if (connection->watched == events)
		return;
	connection->watched = events;
	epoll_ctl(connection->epoll_fd, EPOLL_CTL_MOD, connection->wire.fd, &event);
}

bool rd_connection_is_promising(const struct rd_connection *connection)
{
	return rd_wire_is_promising(&connection->wire);
}

static bool is_temporary(int error)
{
	return error == EAGAIN || error == EINTR;
}

int rd_connection_read(struct rd_connection *connection, int *error)
{
	struct iovec room = { connection->in + connection->in_size,
		sizeof(connection->in) - connection->in_size };
	ssize_t got = rd_wire_prove(&connection->wire);

	if (got > 0)
		got = rd_wire_recv(&connection->wire, &room, 1);
	else if (got == 0)
		return 0;
	if (got > 0) {
		connection->in_size += (size_t)got;
		return 1;
	}
	*error = got < 0 ? errno : 0;
	return is_temporary(*error) ? 0 : -1;
}

int rd_connection_take(struct rd_connection *connection, struct rd_control_message *message)
{
	int took = rd_control_decode(connection->in, connection->in_size, message);

	if (took < 0)
		connection->in_size = 0;
	if (took <= 0)
		return took;
	connection->in_size -= (size_t)took;
	memmove(connection->in, connection->in + took, connection->in_size);
	return 1;
}

bool rd_connection_has_room(const struct rd_connection *connection)
{
	return sizeof(connection->out) - connection->out_size >= RD_FRAME_MAX;
}

void rd_connection_put(struct rd_connection *connection, struct rd_control_message *message)
{
	connection->out_size += rd_control_encode(message, connection->out + connection->out_size);
}

bool rd_connection_flush(struct rd_connection *connection, int *error)
{
	int proved = rd_wire_prove(&connection->wire);

	if (proved <= 0) {
		*error = errno;
		return proved == 0;
	}
	while (connection->out_at < connection->out_size) {
		struct iovec left = { connection->out + connection->out_at,
			connection->out_size - connection->out_at };
		ssize_t sent = rd_wire_send(&connection->wire, &left, 1);

		if (sent < 0) {
			*error = errno;
			rd_connection_watch(connection, EPOLLIN | EPOLLOUT);
			return is_temporary(*error);
		}
		connection->out_at += (size_t)sent;
	}
	connection->out_at = 0;
	connection->out_size = 0;
	rd_connection_watch(connection, EPOLLIN);
	return true;
}

void rd_connection_abandon(struct rd_connection *connection)
{
	if (!connection)
		return;
	/* The socket was closed by the fork. No epoll_ctl(): the epoll is the parent's as well. */
	rd_wire_release(&connection->wire);
	free(connection);
}
