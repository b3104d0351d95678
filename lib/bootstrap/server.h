/*
 * Rank 0's server: accepts connections, and carries messages between their sockets and the
 * coordinator. Rank 0's own participant holds connection 0 without a socket. For the control thread
 * alone, after rd_server_start().
 */
#ifndef RD_SERVER_H
#define RD_SERVER_H

#include "bootstrap/connection.h"
#include "bootstrap/coordinator/coordinator.h"
#include "bootstrap/participant/participant.h"
#include "net/socket.h"

struct rd_server {
	int epoll_fd; /* the caller's */
	int listen_fd; /* -1: none, or no longer */
	const struct rd_settings *settings; /* the caller's */
	struct rd_coordinator *coordinator; /* NULL before rd_server_start() */
	struct rd_connection **connections; /* by the coordinator's numbers; NULL: none */
	bool joined; /* rank 0's participant holds connection 0 */
	uint32_t warned_ms; /* the longest wait of a slow call that was a warning */
};

/* Listens as rd_listen() does, with events of this mark. */
int rd_server_listen(struct rd_server *server, const struct rd_addresses *addresses,
	const struct rd_settings *settings, uint64_t mark);

/* Creates the coordinator; settings, which outlive the server, and address as for
   rd_coordinator_create(). The epoll reports a
   connection's events with its number as the mark. After an error rd_server_finish() is due. */
int rd_server_start(struct rd_server *server, const struct rd_settings *settings,
	const char *address, int64_t now_ms);

/* Closes all sockets and frees the coordinator. */
void rd_server_finish(struct rd_server *server);
/* The same in a forked child: the parent's connections and epoll stay as they are. */
void rd_server_abandon(struct rd_server *server);

/* Accepts the connections that wait, after an event of the listening socket. */
void rd_server_accept(struct rd_server *server, int64_t now_ms);
/* Receives the messages that have arrived over this connection, after an event of its socket. */
void rd_server_receive(struct rd_server *server, int index, int64_t now_ms);
/* This connection has ended: error is its errno, 0 for an end of file. */
void rd_server_lose(struct rd_server *server, int index, int error);
/* Sends what the coordinator has to send; exchanges messages with rank 0's participant; closes
   connections that the coordinator has dropped; logs slow calls. */
void rd_server_serve(struct rd_server *server, struct rd_participant *participant, int64_t now_ms);

#endif
