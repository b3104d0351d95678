#include "comm/comm_log.h"

#include <stdio.h>
#include <string.h>

#include "comm/route.h"
#include "exec/algorithms.h"
#include "topo/cpus.h"
#include "base/error.h"
#include "base/log.h"
#include "tuner/eligible.h"

#define LINE_SIZE 900 /* the log's longest line, without its prefix */

/* ---- This rank ----------------------------------------------------------------------------- */

/* Rondo binds no process: the CPUs are those that the launcher left it. */
static void log_affinity(const struct rondo_comm *comm)
{
	struct rd_cpus cpus;
	char text[LINE_SIZE];

	if (!rd_log_on(RD_INFO, RD_PROBE) || !rd_cpus_allowed(&cpus))
		return;
	rd_cpus_text(&cpus, text, sizeof(text));
	rd_log(RD_INFO, RD_PROBE, "Affinity of rank %d : CPUs %s", comm->rank, text);
}

/* ---- Links --------------------------------------------------------------------------------- */

/* "shm", or between hosts "tcp/1" with the rail's number. */
static void describe_link(const struct rondo_comm *comm, const struct rd_link *link, char text[32])
{
	const int *host = comm->layouts[0]->group;

	if (host[link->peer] == host[comm->rank])
		snprintf(text, 32, "%s", link->transport->name);
	else
		snprintf(text, 32, "%s/%d", link->transport->name, link->rail);
}

void rd_comm_log_links(const struct rondo_comm *comm, int peer)
{
	const struct rd_member *members = rd_control_members(comm->control);
	char via[32];

	if (!rd_log_on(RD_INFO, RD_ROUTE))
		return;
	for (int channel = 0; channel < comm->channels; channel++) {
		describe_link(comm, comm->links[peer * comm->channels + channel], via);
		rd_log(RD_INFO, RD_ROUTE, "Channel %02d : %d[%d] -> %d[%d] via %s", channel,
			comm->rank, members[comm->rank].place.pid, peer, members[peer].place.pid,
			via);
	}
}

/* The transports to ranks on other hosts, each once. */
static void log_network(const struct rondo_comm *comm, const struct rd_member *members)
{
	const int *host = comm->layouts[0]->group;
	char names[LINE_SIZE] = "";

	if (!rd_log_on(RD_INFO, RD_NET))
		return;
	for (int peer = 0; peer < comm->size; peer++) {
		const struct rd_endpoint *endpoint;
		size_t length = strlen(names);

		if (host[peer] == host[comm->rank])
			continue;
		endpoint = rd_route_cheapest(comm, members, peer, 0);
		if (endpoint && !strstr(names, endpoint->transport->name))
			snprintf(names + length, sizeof(names) - length, "%s%s", length ? ", " : "",
				endpoint->transport->name);
	}
	if (names[0] && comm->rails[RD_FAR] > 1)
		rd_log(RD_INFO, RD_NET, "Using network %s over %u rails", names,
			comm->rails[RD_FAR]);
	else if (names[0])
		rd_log(RD_INFO, RD_NET, "Using network %s", names);
	else
		rd_log(RD_INFO, RD_NET, "Using no network : all ranks are on one host");
}

/* ---- Rings and trees ----------------------------------------------------------------------- */

static int find_rank(const struct rd_layout *layout, int rank)
{
	int at = 0;

	while (layout->order[at] != rank)
		at++;
	return at;
}

/* Rank 0 logs the whole ring; each rank logs its neighbours. */
static void log_rings(const struct rondo_comm *comm)
{
	int size = comm->size;

	if (!rd_log_on(RD_INFO, RD_RING))
		return;
	for (int channel = 0; channel < comm->channels; channel++) {
		const struct rd_layout *layout = comm->layouts[channel];
		int at = find_rank(layout, comm->rank);
		char line[LINE_SIZE] = "";
		size_t length = 0;

		for (int i = 0; i < size && length < sizeof(line); i++)
			length += (size_t)snprintf(
				line + length, sizeof(line) - length, " %d", layout->order[i]);
		if (comm->rank == 0)
			rd_log(RD_INFO, RD_RING, "Channel %02d/%02d :%s", channel, comm->channels,
				line);
		rd_log(RD_INFO, RD_RING, "Ring %02d : %d -> %d -> %d", channel,
			layout->order[(at + size - 1) % size], comm->rank,
			layout->order[(at + 1) % size]);
	}
}

/* A rank's place in a tree: sums come from the children, and go to the parent. */
struct branch {
	int children[4], child_count, parent;
};

static void follow_step(struct branch *branch, const struct rd_step *step)
{
	if (rd_step_receives(step) && !rd_step_reduces(step))
		branch->parent = step->peer;
	if (!rd_step_reduces(step))
		return;
	for (int i = 0; i < branch->child_count; i++)
		if (branch->children[i] == step->peer)
			return;
	if (branch->child_count < 4)
		branch->children[branch->child_count++] = step->peer;
}

/* "1/2": two at least, of which -1 is none. */
static void log_children(const struct branch *branch, char *line, size_t size)
{
	size_t length = 0;

	for (int i = 0; (i < 2 || i < branch->child_count) && length < size; i++)
		length += (size_t)snprintf(line + length, size - length, "%s%d", i ? "/" : "",
			i < branch->child_count ? branch->children[i] : -1);
}

/* Both trees of a channel, as the plan of an all-reduce has them: "[0] 1/2->0->-1". */
static size_t log_trees_of(const struct rondo_comm *comm, const struct rd_algorithm *trees,
	int channel, char *line, size_t size)
{
	struct branch branches[2] = { { .parent = -1 }, { .parent = -1 } };
	struct rd_problem problem = { .collective = RD_ALL_REDUCE,
		.rank = comm->rank,
		.size = comm->size,
		.layout = comm->layouts[channel] };
	struct rd_plan *plan;
	size_t length = 0;

	if (rd_plan_create(&plan, trees, &problem))
		return 0;
	for (int i = 0; i < plan->step_count; i++)
		follow_step(&branches[2 * plan->steps[i].chunk / plan->parts], &plan->steps[i]);
	rd_plan_destroy(plan);
	for (int tree = 0; tree < 2 && length < size; tree++) {
		char children[64] = "";

		log_children(&branches[tree], children, sizeof(children));
		length += (size_t)snprintf(line + length, size - length, " [%d] %s->%d->%d",
			2 * channel + tree, children, comm->rank, branches[tree].parent);
	}
	return length;
}

/* The line that NCCL logs under this name: the algorithm has the name, too. */
static void log_trees(const struct rondo_comm *comm)
{
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = comm->size };
	const struct rd_algorithm *trees = rd_algorithm_called("tree");
	char line[LINE_SIZE] = "";
	size_t at = 0;

	if (!rd_log_on(RD_INFO, RD_TREE))
		return;
	if (!rd_algorithm_can(trees, &problem)) {
		rd_log(RD_INFO, RD_TREE, "Trees : none for %d rank%s", comm->size,
			RD_PLURAL(comm->size));
		return;
	}
	for (int channel = 0; channel < comm->channels && at < sizeof(line); channel++)
		at += log_trees_of(comm, trees, channel, line + at, sizeof(line) - at);
	rd_log(RD_INFO, RD_TREE, "Trees%s", line);
}

/* ---- The whole ----------------------------------------------------------------------------- */

void rd_comm_log(const struct rondo_comm *comm, const struct rd_member *members)
{
	int hosts = comm->layouts[0]->group_count;

	log_affinity(comm);
	log_network(comm, members);
	log_rings(comm);
	log_trees(comm);
	rd_log(RD_INFO, RD_COLL,
		"%d coll channel%s, %d p2p channel%s per peer, %d rank%s on %d host%s",
		comm->channels, RD_PLURAL(comm->channels), comm->channels,
		RD_PLURAL(comm->channels), comm->size, RD_PLURAL(comm->size), hosts,
		RD_PLURAL(hosts));
}

/* The lower rank logs for both. */
void rd_comm_log_fallback(const struct rondo_comm *comm, const struct rd_link_failure *link_failure,
	const struct rd_transport *next)
{
	if (link_failure->low == comm->rank)
		rd_log(RD_WARN, RD_ROUTE,
			"rank %d and rank %d do not reach each other over %s%s (rank %d says: %s), "
			"and go on over %s",
			comm->rank, link_failure->high, link_failure->transport,
			link_failure->tagged ? " for tagged messages" : "", link_failure->by,
			link_failure->reason, next->name);
}
