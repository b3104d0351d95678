/*
 * The agent of one node: joins the meeting, starts the ranks of each attempt, reports their end,
 * and joins again, until the job is over.
 *
 * A job of one node has a meeting as well, in the same process and without a network.
 */
#ifndef RUN_NODES_AGENT_H
#define RUN_NODES_AGENT_H

#include "run/base/polls.h"
#include "run/group.h"
#include "run/nodes/link.h"
#include "run/options.h"
#include "run/output/console.h"

struct agent {
	const struct options *options;
	struct console *console;
	struct group *group; /* while its `ranks` are set, an attempt is under way */
	struct world world; /* of the last attempt; its nodes are 0 before the first */
	struct rules rules;
	char run_id[RUN_ID_SIZE];
	char host[HOST_SIZE]; /* of this node */
	struct secret secret;
	struct link link;

	struct join join;
	int rendezvous_fd; /* where rank 0 will listen; -1: not open yet */
	int reserved[2]; /* sockets that hold the ports of `join`; -1: none */
	bool prepared; /* they are chosen for the next world */
	bool joins; /* JOIN is due once no rank is left */

	bool stops; /* the ranks are ending, for `stop` */
	struct stop stop;
	pid_t reported; /* of the failure that was sent last; 0: none */
	bool leaves; /* after a signal, or because no rank could be started */
	bool over; /* once no rank is left, the job ends with `status` */
	int status;
};

/* False, with one line on stderr, where this node cannot take part. The caller has set the group's
   members above `ranks`, but for the world and the socket. */
bool agent_init(struct agent *agent, const struct options *options, struct group *group,
	struct console *console);
/* Also where all of it is 0. */
void agent_finish(struct agent *agent);

/* Takes all that has happened: messages, and the ends of ranks. */
void agent_step(struct agent *agent);

/* After a signal to this node alone, which ends its ranks: the other nodes may go on. */
void agent_leave(struct agent *agent, int signal);

/* Whether no rank is left, and the other nodes have been told. */
bool agent_is_over(const struct agent *agent);

#endif
