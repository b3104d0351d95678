/*
 * Rank 0's connections go on over other sockets, where the network has reset theirs. A listener
 * takes the sockets of ranks that connect again; each begins with RESUME, which rank 0 answers.
 * Comers that have not proved themselves are few, and have little time.
 *
 * A rank that has ended does not come. So rank 0 connects to the rank's place of its line (line.h),
 * and holds that connection, which nobody accepts: only the kernel of an ended process refuses it,
 * or ends it. For the control thread alone.
 */
#ifndef RD_SERVER_RECONNECT_H
#define RD_SERVER_RECONNECT_H

#include "bootstrap/connection.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/socket.h"

struct rd_server;

/* A connection to this process that has not told whose it is. */
struct rd_pending {
	struct rd_connection *connection; /* NULL: none */
	int64_t until_ms;
};

/* A connection without a socket. */
struct rd_outage {
	int error; /* errno of the socket that was lost; 0: none is, and the next are unset */
	uint64_t received; /* bytes, over all sockets so far */
	int64_t since_ms, until_ms; /* then the rank is lost */
	struct rd_addresses place; /* the rank's, of its line */
	int probe_fd; /* -1: none */
	struct rd_close_on_fork unshared;
	bool probed; /* the probe is connected */
	int64_t probe_ms; /* the time of the next probe; RD_NEVER while there is one */
	int pause_ms; /* before it */
	unsigned count; /* of sockets lost */
	uint32_t attempt; /* of the rank's, the latest that was taken; over all outages */
};

struct rd_server_reconnect {
	int listen_fd; /* -1: none; connections end with their sockets */
	struct rd_close_on_fork unshared; /* where there is a listener */
	uint32_t port;
	uint64_t mark; /* of its epoll events */
	int64_t rest_ms; /* without descriptors: until then nobody is accepted; 0: all are */
	uint64_t pending_mark, probe_mark; /* of epoll events; the index is added */
	struct rd_pending pending[RD_PENDING_MAX];
	struct rd_outage *outages; /* one a connection of the server */
};

/* Listens at any port of this address, with events of this mark; pending_mark and probe_mark are
   set. RONDO_SYSTEM. */
int rd_server_reconnect_listen(
	struct rd_server *server, const struct sockaddr_storage *address, uint64_t mark);
/* With the server's connections. RONDO_MEMORY. */
int rd_server_reconnect_start(struct rd_server *server);
void rd_server_reconnect_finish(struct rd_server *server);
/* The same in a forked child. */
void rd_server_reconnect_abandon(struct rd_server *server);

/* After events: of the listener, of a pending connection, of the probe for a connection. */
void rd_server_reconnect_accept(struct rd_server *server, int64_t now_ms);
void rd_server_reconnect_receive(struct rd_server *server, int pending, int64_t now_ms);
void rd_server_reconnect_probed(struct rd_server *server, int index, int64_t now_ms);

/* This connection has lost its socket: goes on, or rd_server_lose(). */
void rd_server_reconnect_begin(struct rd_server *server, int index, int64_t now_ms);
/* Ends what is overdue, and begins what is due. */
void rd_server_reconnect_serve(struct rd_server *server, int64_t now_ms);
int64_t rd_server_reconnect_deadline(const struct rd_server *server);

#endif
