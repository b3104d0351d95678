#include "bootstrap/server.h"

void rd_server_lose(struct rd_server *server, int index, int error)
{
	rd_connection_close(&server->connections[index]);
	rd_coordinator_closed(server->coordinator, index, error);
}

/* True: more may have come. */
static bool receive_once(struct rd_server *server, int index, int64_t now_ms)
{
	struct rd_connection *connection = server->connections[index];
	struct rd_control_message message;
	int error, took, got = rd_connection_read(connection, &error);

	if (got < 0) {
		rd_server_lose(server, index, error);
		return false;
	}
	if (rd_connection_is_promising(connection))
		rd_coordinator_promising(server->coordinator, index);
	while ((took = rd_connection_take(connection, &message)) > 0)
		rd_coordinator_take(server->coordinator, index, &message, now_ms);
	if (took < 0)
		rd_coordinator_bad_message(server->coordinator, index, now_ms);
	return got > 0 && took == 0;
}

void rd_server_receive(struct rd_server *server, int index, int64_t now_ms)
{
	if (server->connections[index])
		while (receive_once(server, index, now_ms))
			;
}
