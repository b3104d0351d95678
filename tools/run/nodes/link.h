/*
 * An agent's link to the meeting's leader: finds the leader, or becomes it.
 *
 * At first it looks at the endpoint: where the endpoint is this node's own and nobody listens
 * there, this agent listens there and leads. After the loss of the leader, it tries the candidates
 * that come before it, in their order, and then leads itself. While it leads away from the
 * endpoint, it looks there once a second, and tells an agent that listens there to come.
 */
#ifndef RUN_NODES_LINK_H
#define RUN_NODES_LINK_H

#include "run/base/polls.h"
#include "run/nodes/endpoint.h"
#include "run/nodes/meeting.h"
#include "run/nodes/peer.h"
#include "run/nodes/server.h"
#include "run/output/console.h"

struct link {
	enum {
		LINK_SEEKS, /* the next attempt is at retry_ms */
		LINK_GREETS, /* HELLO is sent, the answer awaited */
		LINK_JOINED,
		LINK_FAILED, /* for `reason`: there is no way */
	} state;
	struct console *console;
	const struct rules *rules;
	struct hello hello; /* sent to each leader; the agent keeps it up to date */
	struct world last; /* the last world; its nodes are 0 before the first */
	char reason[REASON_SIZE]; /* why the last attempt failed, or the leader was lost */
	bool lost; /* the leader was lost; the agent clears it */

	bool is_static; /* node 0 leads, and nobody else */
	struct endpoint endpoint; /* the name is NULL for a job of one node */
	struct endpoint local; /* the address at which this agent listens; none: at all */
	int next_address; /* of the endpoint */
	int barred; /* of the addresses before it: more attempts there would fail too */
	bool was_named; /* a line about the endpoint's name was printed */
	bool is_taken; /* the endpoint is here, and this agent cannot listen there */

	struct candidates candidates;
	int id; /* of this agent among them */
	int next_id; /* its id in the present meeting, whose candidates come with the next world */
	int next_candidate; /* -1: it looks at the endpoint */
	struct place place; /* a redirection; its port is 0 without one */
	int redirections; /* one after the other */

	struct peer peer; /* to the leader, or to one that may be it */
	struct place peer_place; /* where that listens */
	char host[HOST_SIZE]; /* of the leader, once joined */
	int64_t retry_ms, answer_ms, give_up_ms;
	int64_t notice_ms; /* then a line names the wait; 0: it was printed */
	int64_t noticed_ms; /* the deadline of the gathering whose wait was named */
	int wait_ms;

	struct server server;
	struct peer probe; /* to an agent at the endpoint, while this one leads elsewhere */
	int64_t probe_ms; /* 0: it does not look there */
};

/* The rules, the secret and the endpoint's name outlive the link. It begins to look at the
   endpoint. */
void link_init(struct link *link, const struct rules *rules, const struct endpoint *endpoint,
	bool is_static, const struct secret *secret, struct console *console);
void link_finish(struct link *link);

/* After a loss of the leader: looks among the candidates for the next one. */
void link_seek_next(struct link *link);

/* Once joined. */
void link_send(struct link *link, const struct message *message);
/* The next message of the leader; false: none yet. */
bool link_next(struct link *link, struct message *message);

void link_add_polls(struct link *link, struct polls *polls);
void link_take_polls(struct link *link, const struct polls *polls);
int64_t link_deadline(const struct link *link);
void link_on_clock(struct link *link, int64_t now_ms);

#endif
