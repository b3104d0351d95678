#include "chakra.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "chakra_node.h"

#define DEPS_MAX (32 << 20) /* of a file */

enum state { NEW, OPEN, DONE };

struct node {
	uint64_t id;
	int64_t comm_size, duration_ns;
	int first_dep, dep_count;
	int at; /* the dependency to look at next */
	int16_t type, comm_type;
	enum state state;
};

struct graph {
	const char *path;
	int most;
	struct node *nodes;
	int count, room;
	uint64_t *deps; /* ids; once the nodes are sorted, indices */
	int dep_count, dep_room;
	int *stack; /* [count]: open nodes, each a dependency of the one before */
	int depth;
	struct chakra_calls *calls;
	int64_t now_ns, gap_ns; /* the rank's time; since its last call */
};

static int refuse(const struct graph *graph, uint64_t id, const char *reason)
{
	return rd_fail(RONDO_INVALID, "%s: node %" PRIu64 ": %s", graph->path, id, reason);
}

static int fail_memory(void)
{
	return rd_fail(RONDO_MEMORY, "no memory for a Chakra trace");
}

/* ---- Reading -------------------------------------------------------------------------------- */

static int check_collective(const struct graph *graph, const struct chakra_node *node)
{
	bool has_size = node->comm_type != CHAKRA_BARRIER;

	if (node->comm_type < 0 || node->comm_type >= CHAKRA_COMM_TYPE_COUNT)
		return refuse(graph, node->id, "a collective wants a comm_type from 0 to 9");
	if (has_size && node->comm_size < 0)
		return refuse(graph, node->id, "a collective wants a comm_size");
	/* As ASTRA-sim has it. */
	if (node->group && *node->group && strcmp(node->group, "0") != 0)
		return refuse(graph, node->id,
			"it is of a process group; a replay has collectives of all ranks alone");
	return 0;
}

static int check(const struct graph *graph, const struct chakra_node *node)
{
	if (graph->count == graph->most)
		return rd_fail(RONDO_INVALID, "%s: the trace has more than %d nodes", graph->path,
			CHAKRA_NODES_MAX);
	if (node->duration_us > CHAKRA_NS_MAX / 1000)
		return refuse(graph, node->id, "it takes more than 11 days");
	if (node->type == CHAKRA_COLL)
		return check_collective(graph, node);
	if (node->type == CHAKRA_COMP || node->type == CHAKRA_METADATA ||
		node->type == CHAKRA_INVALID)
		return 0;
	return rd_fail(RONDO_UNSUPPORTED,
		"%s: node %" PRIu64 ": a replay has collectives and computations alone, and this "
		"is %s",
		graph->path, node->id,
		node->type == CHAKRA_SEND   ? "a send"
		: node->type == CHAKRA_RECV ? "a receive"
					    : "of another type");
}

static bool add_deps(struct graph *graph, const uint64_t *ids, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!rd_grow(&graph->deps, graph->dep_count, &graph->dep_room, sizeof(*ids)))
			return false;
		graph->deps[graph->dep_count++] = ids[i];
	}
	return true;
}

static int take(void *context, const struct chakra_node *node)
{
	struct graph *graph = context;
	size_t deps = node->ctrl_dep_count + node->data_dep_count;
	bool takes_time = node->type == CHAKRA_COMP || node->type == CHAKRA_COLL;
	int err = check(graph, node);

	if (err)
		return err;
	if (deps > (size_t)(DEPS_MAX - graph->dep_count))
		return refuse(graph, node->id, "the file has more than 33,554,432 dependencies");
	if (!rd_grow(&graph->nodes, graph->count, &graph->room, sizeof(*graph->nodes)))
		return fail_memory();
	graph->nodes[graph->count++] = (struct node){ .id = node->id,
		.comm_size = node->comm_type == CHAKRA_BARRIER ? 0 : node->comm_size,
		.duration_ns = takes_time ? (int64_t)node->duration_us * 1000 : 0,
		.first_dep = graph->dep_count,
		.dep_count = (int)deps,
		.type = (int16_t)node->type,
		.comm_type = (int16_t)node->comm_type };
	return add_deps(graph, node->ctrl_deps, node->ctrl_dep_count) &&
			       add_deps(graph, node->data_deps, node->data_dep_count)
		       ? 0
		       : fail_memory();
}

/* ---- The order ------------------------------------------------------------------------------ */

static int compare_nodes(const void *left, const void *right)
{
	const struct node *a = left, *b = right;

	return a->id < b->id ? -1 : a->id > b->id;
}

/* Sorts the nodes, and makes indices of the dependencies. */
static int link_nodes(struct graph *graph)
{
	struct node *nodes = graph->nodes;

	qsort(nodes, (size_t)graph->count, sizeof(*nodes), compare_nodes);
	for (int i = 0; i < graph->count; i++) {
		if (i > 0 && nodes[i].id == nodes[i - 1].id)
			return refuse(graph, nodes[i].id, "two nodes have this id");
		for (int k = 0; k < nodes[i].dep_count; k++) {
			uint64_t *dep = &graph->deps[nodes[i].first_dep + k];
			struct node key = { .id = *dep };
			const struct node *found = bsearch(
				&key, nodes, (size_t)graph->count, sizeof(*nodes), compare_nodes);

			if (!found)
				return refuse(graph, nodes[i].id,
					"it depends on a node that the file lacks");
			*dep = (uint64_t)(found - nodes);
		}
	}
	return 0;
}

/* All that it depends on has run. */
static int run(struct graph *graph, const struct node *node)
{
	graph->now_ns += node->duration_ns;
	if (graph->now_ns > CHAKRA_NS_MAX)
		return refuse(graph, node->id, "all until here takes more than 11 days");
	if (node->type == CHAKRA_COMP)
		graph->gap_ns += node->duration_ns;
	if (node->type != CHAKRA_COLL)
		return 0;
	graph->calls->list[graph->calls->count++] = (struct chakra_call){ node->id, node->comm_type,
		node->comm_size, graph->gap_ns, node->duration_ns };
	graph->gap_ns = 0;
	return 0;
}

static void open_node(struct graph *graph, int index)
{
	graph->nodes[index].state = OPEN;
	graph->stack[graph->depth++] = index;
}

/* Runs the node, and before it all that it depends on. */
static int run_with_deps(struct graph *graph, int index)
{
	int err = 0;

	open_node(graph, index);
	while (graph->depth > 0 && !err) {
		struct node *node = &graph->nodes[graph->stack[graph->depth - 1]];
		int at = node->first_dep + node->at;

		if (node->at == node->dep_count) {
			node->state = DONE;
			graph->depth--;
			err = run(graph, node);
			continue;
		}
		node->at++;
		if (graph->nodes[graph->deps[at]].state == OPEN)
			return refuse(graph, node->id, "it depends on itself, by way of others");
		if (graph->nodes[graph->deps[at]].state == NEW)
			open_node(graph, (int)graph->deps[at]);
	}
	return err;
}

static int run_all(struct graph *graph)
{
	int err = graph->count > 0 ? link_nodes(graph) : 0;

	graph->stack = calloc((size_t)graph->count + 1, sizeof(*graph->stack));
	graph->calls->list = calloc((size_t)graph->count + 1, sizeof(*graph->calls->list));
	if (!graph->stack || !graph->calls->list)
		return fail_memory();
	for (int i = 0; i < graph->count && !err; i++)
		if (graph->nodes[i].state == NEW)
			err = run_with_deps(graph, i);
	if (!err && graph->calls->count == 0)
		err = rd_fail(RONDO_INVALID, "%s has no collective", graph->path);
	return err;
}

int chakra_calls_read(struct chakra_calls *calls, const char *path, int most)
{
	struct graph graph = { .path = path, .most = most, .calls = calls };
	int err;

	*calls = (struct chakra_calls){ 0 };
	err = chakra_read(path, take, &graph);
	if (!err)
		err = run_all(&graph);
	calls->nodes = graph.count;
	free(graph.nodes);
	free(graph.deps);
	free(graph.stack);
	if (err) {
		free(calls->list);
		*calls = (struct chakra_calls){ 0 };
	}
	return err;
}
