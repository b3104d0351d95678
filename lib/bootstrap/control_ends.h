/*
 * The ends of control connections in the control thread, which carry messages between sockets and
 * state machines. The server is rank 0's: it takes connections from its door, for the coordinator.
 * Rank 0's own participant holds connection 0 without a socket. The client is any other rank's: it
 * connects to rank 0, for the participant. For the control thread alone, after rd_server_start().
 */
#ifndef RD_CONTROL_ENDS_H
#define RD_CONTROL_ENDS_H

#include "bootstrap/control_socket.h"
#include "bootstrap/coordinator/coordinator.h"
#include "bootstrap/listener.h"
#include "bootstrap/participant/participant.h"
#include "net/door.h"
#include "net/socket.h"

/* ---- server.c ------------------------------------------------------------------------------- */

struct rd_server {
	int epoll_fd; /* the caller's */
	int listen_fd; /* -1: none, or it is the door's */
	struct rd_door *door; /* NULL: before rd_server_start(), and once all ranks have come */
	unsigned foreign; /* rd_door_foreign() that the coordinator knows of */
	const struct rd_settings *settings; /* the caller's */
	/* NULL before rd_server_start(). Its connections have the sockets. */
	struct rd_coordinator *coordinator;
	bool joined; /* rank 0's participant holds connection 0 */
	uint32_t warned_ms; /* the longest wait of a slow call that was a warning */
};

/* Creates the coordinator; settings, which outlive the server, and address as for
   rd_coordinator_create(). The epoll reports a connection's events with its number as the mark.
   group: its id; 0: a random one. After an error rd_server_finish() is due. */
int rd_server_start(struct rd_server *server, const struct rd_settings *settings,
	const char *address, uint64_t group, int64_t now_ms);

/* Accepts from listen_fd, which becomes the door's, with events of this mark. */
void rd_server_begin(struct rd_server *server, uint64_t mark);

/* Closes all connections. */
void rd_server_close(struct rd_server *server);
/* Closes all sockets and frees the coordinator. */
void rd_server_finish(struct rd_server *server);

/* Takes a channel that has come, whose events set *due, or closes it where there is no place. */
void rd_server_join(
	struct rd_server *server, struct rd_channel *channel, _Atomic bool *due, int64_t now_ms);
/* Receives what has come over channels. */
void rd_server_look(struct rd_server *server, int64_t now_ms);
/* Takes the connections that have come, after an event of the door. */
void rd_server_accept(struct rd_server *server, int64_t now_ms);
/* When rd_server_serve() is due for the door, at the latest. */
int64_t rd_server_deadline(const struct rd_server *server);
/* Receives the messages that have arrived over this connection, after an event of its socket. */
void rd_server_receive(struct rd_server *server, int index, int64_t now_ms);
/* This connection has ended: error is its errno, 0 for an end of file. */
void rd_server_lose(struct rd_server *server, int index, int error, int64_t now_ms);
/* Whether all that has been sent is with this host's kernel; acknowledged: and with that of each
   rank on another host. */
bool rd_server_is_flushed(const struct rd_server *server, bool acknowledged);
/* Sends what the coordinator has to send; exchanges messages with rank 0's participant; closes
   connections that the coordinator has dropped; logs slow calls. */
void rd_server_serve(struct rd_server *server, struct rd_participant *participant, int64_t now_ms);

/* ---- client.c ------------------------------------------------------------------------------- */

struct rd_client {
	struct rd_participant *participant; /* the caller's */
	struct sockaddr_storage *local; /* the caller's; set before RD_PARTICIPANT_JOINED */
	struct rd_lineage *lineage; /* the caller's; the same */
	struct rd_listener *listener; /* the job's */
	struct rd_trunks *trunks; /* the caller's, for a channel to rank 0; NULL: a connection */
	_Atomic bool *due; /* the caller's; set by the channel's events */
	int epoll_fd; /* the caller's */
	uint64_t mark; /* of the socket's epoll events */
	const struct rd_settings *settings; /* the caller's */
	struct rd_addresses *addresses; /* of rank 0, malloc()ed; NULL: it has accepted this rank */
	struct rd_control_socket *socket; /* NULL: none */
	int attempt; /* index of the address that is being connected to */
	int barred; /* of the addresses before it: more attempts there would fail too */
	int64_t attempt_ms; /* until when */
};

/* Receives the messages that have arrived, after an event of the socket or the channel. */
void rd_client_receive(struct rd_client *client, int64_t now_ms);
/* Receives until no byte is left. */
void rd_client_drain(struct rd_client *client, int64_t now_ms);
/* The connection has ended: error is its errno, 0 for an end of file. */
void rd_client_lose(struct rd_client *client, int error, int64_t now_ms);
/* Connects where the participant wants to, sends its messages, and closes the connection when the
   participant is done. */
void rd_client_serve(struct rd_client *client, int64_t now_ms);
/* Whether the kernel has all of the participant's goodbye. */
bool rd_client_has_sent_goodbye(const struct rd_client *client);
/* Frees the addresses of rank 0. */
void rd_client_forget(struct rd_client *client);
/* When rd_client_serve() must be called next, at the latest. */
int64_t rd_client_deadline(const struct rd_client *client);

#endif
