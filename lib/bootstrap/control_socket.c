#include "bootstrap/control_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "bootstrap/rendezvous.h"
#include "net/socket.h"

/* Bytes that wait for the other end. */
#define OUT_MOST (2 * RD_FRAME_MAX)

struct rd_control_socket *rd_control_socket_adopt(
	int epoll_fd, struct rd_wire *wire, uint64_t mark, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = mark };
	struct rd_control_socket *socket = calloc(1, sizeof(*socket));
	int fd = wire->fd, error;

	if (!socket || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
		error = errno;
		rd_wire_close(wire);
		free(socket);
		errno = error;
		return NULL;
	}
	rd_connection_init(&socket->connection, wire, RD_FRAME_MAX, OUT_MOST);
	socket->epoll_fd = epoll_fd;
	socket->mark = mark;
	socket->watched = events;
	socket->near = rd_socket_is_near(fd);
	return socket;
}

struct rd_control_socket *rd_control_socket_dial(int epoll_fd, const struct rd_addresses *addresses,
	int index, uint64_t mark, const struct rd_settings *settings)
{
	struct rd_wire wire = RD_WIRE(rd_connect_start(addresses, index));
	struct rd_control_socket *socket;

	if (wire.fd < 0)
		return NULL;
	if (settings->has_psk && rd_wire_secure(&wire, false, settings->psk)) {
		rd_wire_close(&wire);
		errno = ENOMEM;
		return NULL;
	}
	socket = rd_control_socket_adopt(epoll_fd, &wire, mark, EPOLLOUT);
	if (socket)
		socket->connecting = true;
	return socket;
}

struct rd_control_socket *rd_control_socket_join(struct rd_channel *channel, _Atomic bool *due)
{
	struct rd_control_socket *socket = calloc(1, sizeof(*socket));

	if (!socket) {
		rd_channel_close(channel, true);
		errno = ENOMEM;
		return NULL;
	}
	socket->channel = channel;
	socket->near = rd_socket_is_near(rd_channel_fd(channel));
	channel->due = due;
	return socket;
}

void rd_control_socket_close(struct rd_control_socket **socket, bool resets)
{
	if (!*socket)
		return;
	if ((*socket)->channel) {
		rd_channel_close((*socket)->channel, resets);
	} else {
		epoll_ctl((*socket)->epoll_fd, EPOLL_CTL_DEL, (*socket)->connection.wire.fd, NULL);
		rd_connection_close(&(*socket)->connection, resets);
	}
	free(*socket);
	*socket = NULL;
}

int rd_control_socket_fd(const struct rd_control_socket *socket)
{
	return socket->channel ? rd_channel_fd(socket->channel) : socket->connection.wire.fd;
}

bool rd_control_socket_is_stirred(const struct rd_control_socket *socket)
{
	return socket->channel && socket->channel->stirred;
}

int rd_control_socket_judge(const struct rd_control_socket *socket, int error)
{
	/* A process that has died resets no channel: its kernel ends the trunk. */
	if (socket && socket->channel && !socket->channel->lost)
		return error;
	return socket && socket->near && rd_means_reset(error) ? EPIPE : error;
}

void rd_control_socket_watch(struct rd_control_socket *socket, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u64 = socket->mark };

	if (socket->channel || socket->watched == events)
		return;
	socket->watched = events;
	epoll_ctl(socket->epoll_fd, EPOLL_CTL_MOD, socket->connection.wire.fd, &event);
}

int rd_control_socket_connect(struct rd_control_socket *socket, int timeout_ms, int *error)
{
	int fd = rd_control_socket_fd(socket);

	if (!socket->channel)
		*error = rd_connect_finish(fd);
	else if (rd_channel_is_connecting(socket->channel))
		return 0;
	else
		*error = socket->channel->ended ? socket->channel->error : 0;
	if (*error)
		return -1;
	socket->connecting = false;
	socket->near = rd_socket_is_near(fd);
	/* A trunk is tuned once. */
	if (!socket->channel)
		rd_socket_tune(fd, timeout_ms);
	rd_control_socket_watch(socket, EPOLLIN);
	return 1;
}

int rd_control_socket_read(struct rd_control_socket *socket, int *error)
{
	return socket->channel ? rd_channel_read(socket->channel, error)
			       : rd_connection_read(&socket->connection, error);
}

int rd_control_socket_take(struct rd_control_socket *socket, struct rd_control_message *message)
{
	const unsigned char *frame;
	long size = socket->channel ? rd_channel_next(socket->channel, &frame)
				    : rd_connection_next(&socket->connection, &frame);

	if (size == 0)
		return 0;
	if (size < 0)
		return rd_fail(RONDO_PROTOCOL, "no message starts with these bytes");
	return rd_control_decode(frame, (size_t)size, message) > 0 ? 1 : RONDO_PROTOCOL;
}

bool rd_control_socket_has_room(const struct rd_control_socket *socket)
{
	return socket->channel ? rd_channel_has_room(socket->channel)
			       : rd_connection_has_room(&socket->connection);
}

void rd_control_socket_put(struct rd_control_socket *socket, struct rd_control_message *message)
{
	unsigned char *frame = socket->channel ? rd_channel_reserve(socket->channel)
					       : rd_connection_reserve(&socket->connection);
	size_t size = frame ? rd_control_encode(message, frame) : 0;

	if (frame && socket->channel)
		rd_channel_commit(socket->channel, size);
	else if (frame)
		rd_connection_commit(&socket->connection, size);
}

bool rd_control_socket_is_flushed(const struct rd_control_socket *socket)
{
	return socket->channel ? rd_channel_is_flushed(socket->channel)
			       : rd_connection_is_flushed(&socket->connection);
}

bool rd_control_socket_flush(struct rd_control_socket *socket, int *error)
{
	if (socket->channel)
		return rd_channel_flush(socket->channel, error);
	if (!rd_connection_flush(&socket->connection, error))
		return false;
	rd_control_socket_watch(
		socket, rd_connection_waits(&socket->connection) ? EPOLLIN | EPOLLOUT : EPOLLIN);
	return true;
}
