#include "net/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/codec.h"
#include "net/socket.h"

/* ---- Life ---------------------------------------------------------------------------------- */

void rd_connection_init(
	struct rd_connection *connection, struct rd_wire *wire, size_t frame_most, size_t out_most)
{
	*connection = (struct rd_connection){
		.wire = *wire, .frame_most = frame_most, .out_most = out_most
	};
	rd_close_on_fork_add(&connection->unshared, &connection->wire.fd);
}

/* Neither end is left to close(): a child of this process may hold a copy. */
void rd_connection_close(struct rd_connection *connection, bool resets)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	if (connection->frame_most == 0)
		return;
	/* A connected socket that is disconnected sends a reset (tcp_disconnect() of Linux). */
	if (!resets || connect(connection->wire.fd, &none, sizeof(none)))
		shutdown(connection->wire.fd, SHUT_WR);
	rd_close_on_fork_remove(&connection->unshared);
	rd_wire_close(&connection->wire);
	free(connection->in);
	free(connection->out);
	*connection = (struct rd_connection){ .wire = RD_WIRE(-1) };
}

bool rd_connection_is_proved(const struct rd_connection *connection)
{
	return !connection->wire.tls || connection->wire.keyed;
}

/* ---- Receiving ----------------------------------------------------------------------------- */

/* Makes room behind the bytes that are left. False: no memory. */
static bool make_room(struct rd_connection *connection)
{
	if (!connection->in)
		connection->in = malloc(connection->frame_most);
	if (!connection->in)
		return false;
	connection->in_size -= connection->in_at;
	memmove(connection->in, connection->in + connection->in_at, connection->in_size);
	connection->in_at = 0;
	return true;
}

/* The buffer is of use again once bytes come. */
static void give_back(struct rd_connection *connection)
{
	if (connection->in_size > 0)
		return;
	free(connection->in);
	connection->in = NULL;
}

int rd_connection_read(struct rd_connection *connection, int *error)
{
	struct iovec room;
	ssize_t got = rd_wire_prove(&connection->wire);

	if (got == 0)
		return 0;
	if (got > 0 && !make_room(connection)) {
		*error = ENOMEM;
		return -1;
	}
	if (got > 0) {
		room.iov_base = connection->in + connection->in_size;
		room.iov_len = connection->frame_most - connection->in_size;
		/* The owner has yet to take a frame. */
		if (room.iov_len == 0)
			return 0;
		got = rd_wire_recv(&connection->wire, &room, 1);
	}
	if (got > 0) {
		connection->in_size += (size_t)got;
		return 1;
	}
	*error = got < 0 ? errno : 0;
	give_back(connection);
	return rd_is_temporary(*error) ? 0 : -1;
}

long rd_connection_next(struct rd_connection *connection, const unsigned char **frame)
{
	size_t size = connection->in_size - connection->in_at;
	long whole;

	if (size == 0)
		return 0;
	*frame = connection->in + connection->in_at;
	whole = rd_frame_size(*frame, size);
	if (whole < 0 || (size_t)whole > connection->frame_most) {
		connection->in_at = connection->in_size;
		return -1;
	}
	if ((size_t)whole > size)
		return 0;
	connection->in_at += (size_t)whole;
	return whole;
}

/* ---- Sending ------------------------------------------------------------------------------- */

bool rd_connection_has_room(const struct rd_connection *connection)
{
	return connection->out_size + connection->frame_most <= connection->out_most;
}

unsigned char *rd_connection_reserve(struct rd_connection *connection)
{
	size_t needed = connection->out_size + connection->frame_most;
	unsigned char *grown;

	if (!rd_connection_has_room(connection))
		return NULL;
	if (needed > connection->out_capacity) {
		grown = realloc(connection->out, 2 * needed);
		connection->lacks_memory = !grown;
		if (!grown)
			return NULL;
		connection->out = grown;
		connection->out_capacity = 2 * needed;
	}
	return connection->out + connection->out_size;
}

void rd_connection_commit(struct rd_connection *connection, size_t size)
{
	connection->out_size += size;
}

bool rd_connection_is_flushed(const struct rd_connection *connection)
{
	return connection->out_size == 0 && !connection->lacks_memory;
}

bool rd_connection_waits(const struct rd_connection *connection)
{
	return !rd_connection_is_flushed(connection) && rd_connection_is_proved(connection);
}

bool rd_connection_flush(struct rd_connection *connection, int *error)
{
	int proved = rd_wire_prove(&connection->wire);

	if (connection->lacks_memory) {
		*error = ENOMEM;
		return false;
	}
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
			return rd_is_temporary(*error);
		}
		connection->out_at += (size_t)sent;
	}
	free(connection->out);
	connection->out = NULL;
	connection->out_at = connection->out_size = connection->out_capacity = 0;
	return true;
}
