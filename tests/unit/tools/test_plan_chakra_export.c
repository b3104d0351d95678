/* rondo-plan export --format chakra: plans as graphs that a simulator can run. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/algorithms.h"
#include "chakra_files.h"
#include "plan/chakra.h"
#include "rondo.h"
#include "tuner/eligible.h"

#define RANKS_MAX 8
#define NODES_MAX 4096 /* of a rank */

static struct plan_problem made;

static void init(void)
{
	chakra_files_begin();
	rd_costs_default(&made.costs);
}

TestSuite(plan_chakra_export, .init = init, .fini = tree_end, .timeout = 120);

/* ---- Graphs --------------------------------------------------------------------------------- */

struct graph {
	int count;
	struct {
		int type;
		int64_t src, dst, tag, size;
		uint64_t deps[RANKS_MAX + 2]; /* of data first */
		size_t dep_count, data_count;
		bool done;
	} nodes[NODES_MAX]; /* by id - 1 */
};

static struct graph graphs[RANKS_MAX];

static int keep(void *context, const struct chakra_node *node)
{
	struct graph *graph = context;
	int i = graph->count++;

	cr_assert_lt(i, NODES_MAX);
	cr_assert_eq(node->id, (uint64_t)i + 1);
	cr_assert_leq(node->ctrl_dep_count + node->data_dep_count, RANKS_MAX + 2);
	graph->nodes[i].type = node->type;
	graph->nodes[i].src = node->comm_src;
	graph->nodes[i].dst = node->comm_dst;
	graph->nodes[i].tag = node->comm_tag;
	graph->nodes[i].size = node->type == CHAKRA_COMP ? node->tensor_size : node->comm_size;
	graph->nodes[i].done = false;
	graph->nodes[i].dep_count = 0;
	graph->nodes[i].data_count = node->data_dep_count;
	for (size_t k = 0; k < node->data_dep_count; k++)
		graph->nodes[i].deps[graph->nodes[i].dep_count++] = node->data_deps[k];
	for (size_t k = 0; k < node->ctrl_dep_count; k++)
		graph->nodes[i].deps[graph->nodes[i].dep_count++] = node->ctrl_deps[k];
	return 0;
}

/* The send that a receive is of; -1: none. */
static int sender_of(int rank, int i)
{
	const struct graph *from = &graphs[graphs[rank].nodes[i].src];
	int found = -1;

	for (int k = 0; k < from->count; k++) {
		if (from->nodes[k].type != CHAKRA_SEND || from->nodes[k].dst != rank ||
			from->nodes[k].tag != graphs[rank].nodes[i].tag)
			continue;
		cr_assert_eq(found, -1, "two sends have one tag");
		cr_assert_eq(from->nodes[k].size, graphs[rank].nodes[i].size);
		found = k;
	}
	return found;
}

static bool is_free(const struct graph *graph, int i)
{
	for (size_t k = 0; k < graph->nodes[i].dep_count; k++)
		if (!graph->nodes[graph->nodes[i].deps[k] - 1].done)
			return false;
	return true;
}

static bool has_come(int rank, int i)
{
	return graphs[graphs[rank].nodes[i].src].nodes[sender_of(rank, i)].done;
}

/* Runs nodes of the rank, the first free one first, until that is a receive that waits. Returns
   whether any ran. */
static bool run_rank(int rank)
{
	struct graph *graph = &graphs[rank];
	bool moved = false;

	for (int i = 0; i < graph->count; i++) {
		if (graph->nodes[i].done || !is_free(graph, i))
			continue;
		if (graph->nodes[i].type == CHAKRA_RECV && !has_come(rank, i))
			break;
		graph->nodes[i].done = moved = true;
	}
	return moved;
}

/* One communication of a rank at a time, as ASTRA-sim has it. */
static void run_graphs(int ranks, const char *what)
{
	bool moved = true;

	while (moved) {
		moved = false;
		for (int rank = 0; rank < ranks; rank++)
			moved |= run_rank(rank);
	}
	for (int rank = 0; rank < ranks; rank++)
		for (int i = 0; i < graphs[rank].count; i++)
			cr_assert(graphs[rank].nodes[i].done, "%s: rank %d, node %d", what, rank,
				i + 1);
}

static int64_t sum_of(int ranks, int type)
{
	int64_t sum = 0;

	for (int rank = 0; rank < ranks; rank++)
		for (int i = 0; i < graphs[rank].count; i++)
			sum += graphs[rank].nodes[i].type == type ? graphs[rank].nodes[i].size : 0;
	return sum;
}

static void export_plans(const struct rd_algorithm *algorithm, const struct plan_options *options)
{
	plan_problem_lay(&made, options);
	cr_assert_eq(chakra_export(&made, options, algorithm), 0, "%s", rondo_last_error());
	for (int rank = 0; rank < options->ranks; rank++) {
		graphs[rank].count = 0;
		cr_assert_eq(chakra_read(path_of(rank), keep, &graphs[rank]), 0, "%s",
			rondo_last_error());
	}
}

/* A rank receives in the order of its plan. */
static void check_order(const struct graph *graph, const char *what)
{
	uint64_t last = 0;

	for (int i = 0; i < graph->count; i++) {
		bool behind = last == 0;

		for (size_t k = 0; k < graph->nodes[i].dep_count; k++)
			behind |= graph->nodes[i].deps[k] == last;
		cr_assert(behind, "%s: node %d", what, i + 1);
		if (graph->nodes[i].type != CHAKRA_SEND)
			last = (uint64_t)i + 1;
	}
}

static void check_export(const struct rd_algorithm *algorithm, const struct plan_options *options)
{
	char what[80];
	int receives = 0, sends = 0;

	snprintf(what, sizeof(what), "%s %s of %d", algorithm->name,
		rd_collective_name(options->collective), options->ranks);
	export_plans(algorithm, options);
	for (int rank = 0; rank < options->ranks; rank++) {
		check_order(&graphs[rank], what);
		for (int i = 0; i < graphs[rank].count; i++) {
			sends += graphs[rank].nodes[i].type == CHAKRA_SEND;
			cr_assert_gt(graphs[rank].nodes[i].size, 0, "%s", what);
			if (graphs[rank].nodes[i].type != CHAKRA_RECV)
				continue;
			receives++;
			cr_assert_geq(sender_of(rank, i), 0, "%s", what);
		}
	}
	cr_assert_eq(sends, receives, "%s", what);
	cr_assert_gt(sends, 0, "%s", what);
	run_graphs(options->ranks, what);
}

Test(plan_chakra_export, every_send_of_an_exported_plan_has_its_receive_and_all_nodes_run)
{
	struct plan_options options = { .hosts = 1, .size = 5000, .piece_size = 2048 };
	int checked = 0;

	options.output = name;
	for (options.ranks = 2; options.ranks <= RANKS_MAX; options.ranks += 3)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
			for (int i = 0; rd_algorithms[i]; i++) {
				options.collective = (enum rd_collective)c;
				plan_problem_lay(&made, &options);
				if (rd_algorithms[i]->direct_access ||
					rd_algorithm_can(rd_algorithms[i], &made.problem) <= 0)
					continue;
				check_export(rd_algorithms[i], &options);
				checked++;
			}
	cr_assert_gt(checked, 30);
}

/* Such a receive writes where the send read. */
static int receives_behind_sends(const struct graph *graph)
{
	int found = 0;

	for (int i = 0; i < graph->count; i++)
		for (size_t k = 0; k < graph->nodes[i].dep_count; k++)
			found += graph->nodes[i].type == CHAKRA_RECV &&
				 graph->nodes[graph->nodes[i].deps[k] - 1].type == CHAKRA_SEND;
	return found;
}

/* Each rank sends its part of the sum, then that of the result, once to all others but one. */
Test(plan_chakra_export, a_ring_moves_and_reduces_what_a_ring_does)
{
	struct plan_options options = { .collective = RD_ALL_REDUCE,
		.ranks = 4,
		.hosts = 1,
		.size = 4 << 20,
		.piece_size = 128 << 10,
		.output = name };

	export_plans(rd_algorithm_called("ring"), &options);
	cr_expect_eq(sum_of(4, CHAKRA_SEND), 2 * 3 * (4 << 20));
	cr_expect_eq(sum_of(4, CHAKRA_RECV), 2 * 3 * (4 << 20));
	cr_expect_eq(sum_of(4, CHAKRA_COMP), 3 * (4 << 20));
	/* It adds what it received, and sends the sum on. */
	for (int i = 0; i + 1 < graphs[0].count; i++) {
		if (graphs[0].nodes[i].type != CHAKRA_COMP)
			continue;
		cr_expect_eq(graphs[0].nodes[i].deps[0], (uint64_t)i);
		cr_expect_eq(graphs[0].nodes[i + 1].data_count, 1);
		cr_expect_eq(graphs[0].nodes[i + 1].deps[0], (uint64_t)i + 1);
	}
	cr_expect_gt(receives_behind_sends(&graphs[0]), 0);
	/* Two pieces of a chunk at once would be one message. */
	cr_expect_eq(graphs[0].nodes[0].size, 128 << 10);
}

/* Each rank has a message of every other, and adds them all at once. */
Test(plan_chakra_export, a_merge_reduces_the_messages_of_all_others)
{
	struct plan_options options = { .collective = RD_ALL_REDUCE,
		.ranks = 5,
		.hosts = 1,
		.size = 4096,
		.piece_size = 4096,
		.output = name };

	export_plans(rd_algorithm_called("one_round"), &options);
	cr_expect_eq(sum_of(5, CHAKRA_COMP), 5 * 4 * 4096);
	cr_expect_eq(graphs[0].nodes[graphs[0].count - 1].type, CHAKRA_COMP);
	cr_expect_eq(graphs[0].nodes[graphs[0].count - 1].data_count, 4);
}

Test(plan_chakra_export, plans_of_direct_access_are_refused)
{
	struct plan_options options = { .collective = RD_ALL_REDUCE,
		.ranks = 2,
		.hosts = 1,
		.size = 8,
		.piece_size = 8,
		.output = name };

	plan_problem_lay(&made, &options);
	cr_expect_eq(
		chakra_export(&made, &options, rd_algorithm_called("two_shot")), RONDO_UNSUPPORTED);
	cr_expect_not_null(strstr(rondo_last_error(), "no form in Chakra's traces"));
}
