/*
 * Accepts the agents of other nodes: into the meeting if this agent leads it, else it sends them on
 * to the leader.
 */
#ifndef RUN_NODES_SERVER_H
#define RUN_NODES_SERVER_H

#include "net/door.h"
#include "run/base/polls.h"
#include "run/nodes/endpoint.h"
#include "run/nodes/meeting.h"
#include "run/nodes/peer.h"

struct client {
	struct peer peer;
	int id; /* in the meeting; 0: it is not there */
	bool held; /* its HELLO waits for the leader to be known, */
	int64_t held_ms; /* until then; 0: for as long as it takes */
	struct hello hello;
};

struct server {
	enum {
		SERVER_WAITS, /* the leader is not known: agents are held */
		SERVER_SENDS_ON,
		SERVER_LEADS,
	} state;
	const char *run_id;
	const struct secret *secret;
	struct rd_door *door; /* NULL: it has not listened anywhere */
	int own_port; /* where it would lead; 0: nowhere */
	int endpoint_fd; /* the door's; -1: another agent listens at the endpoint, or none */
	bool has_warned; /* that it cannot accept */
	int forbidden; /* why it can never accept: an errno; 0: it can */

	struct client **clients;
	int count, capacity;
	int last_id;

	struct place leader; /* SENDS_ON */
	struct meeting meeting; /* LEADS */
	int self; /* this agent's id in the meeting */
	struct message *inbox; /* for this agent, from its own meeting */
	int inbox_count, inbox_capacity;
	bool moved; /* the job's meeting is at moved_to: this one should join it */
	struct place moved_to;
};

/* Its listeners are closed, and it waits. run_id and secret outlive it. */
void server_init(struct server *server, const char *run_id, const struct secret *secret);
void server_finish(struct server *server);
/* Listens at a port of the kernel's, where it may lead later; as endpoint_listen_beside(). */
void server_open(struct server *server, const struct endpoint *local, int taken);
/* Listens at the endpoint, as endpoint_listen(): endpoint_fd, -1 and errno where that fails. */
void server_open_endpoint(struct server *server, const struct endpoint *local, int port);

/* Leads the meeting, with this agent as a member. `last` is the world that a lost leader has left;
   NULL: none. The rules' send and context become the server's. */
void server_lead(struct server *server, const struct rules *rules, const struct hello *own,
	const struct world *last);
/* The meeting is elsewhere. Members of the one that it led go there too. */
void server_send_on(struct server *server, const struct place *leader);
/* The leader is lost. */
void server_wait(struct server *server);

/* The leader leaves: its clients get what is queued for them, and then lose it. */
void server_dismiss(struct server *server);

/* Messages from this agent to its own meeting, and back. */
void server_take(struct server *server, const struct message *message);
bool server_next(struct server *server, struct message *message);

/* Whether a client has yet to receive its last message: bounded. */
bool server_is_ending(const struct server *server);

void server_add_polls(struct server *server, struct polls *polls);
void server_take_polls(struct server *server, const struct polls *polls);
int64_t server_deadline(const struct server *server);
void server_on_clock(struct server *server, int64_t now_ms);

#endif
