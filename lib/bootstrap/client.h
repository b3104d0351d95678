/*
 * The participant's connection to the coordinator: connects to rank 0, and carries messages between
 * the socket and the participant. For the control thread alone. Rank 0 has no client: its
 * participant exchanges messages with the coordinator directly (server.h).
 */
#ifndef RD_CLIENT_H
#define RD_CLIENT_H

#include "bootstrap/control_socket.h"
#include "bootstrap/listener.h"
#include "bootstrap/participant/participant.h"
#include "net/socket.h"

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
	bool connecting; /* it is not established yet */
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
