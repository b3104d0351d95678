/*
 * The options that all nodes of a job share.
 */
#ifndef RUN_NODES_RULES_H
#define RUN_NODES_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "run/nodes/members.h"
#include "run/nodes/message.h"

struct rules {
	const char *run_id;
	const char *host; /* the name of the meeting's leader, for messages */
	int nodes_min, nodes, max_restarts; /* as in struct options */
	int join_ms; /* for enough nodes to come */
	int last_call_ms; /* then for more of them, in the first round */
	int gather_ms; /* nodes that come while ranks run are gathered for this long */
	int64_t epoch_ms; /* from the monotonic clock to ms since the epoch */
	void (*send)(void *context, int id, const struct message *message);
	void *context;
};

/* Whether the job may go on with fewer nodes than it had. */
bool rules_are_elastic(const struct rules *rules);

/* Whether the agent can become a member beside these; false: the reason is for its user. */
bool rules_accept(const struct rules *rules, const struct members *members,
	const struct hello *hello, char reason[REASON_SIZE]);

#endif
