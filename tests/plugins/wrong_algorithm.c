/*
 * tilted: an all-reduce and a broadcast that are right where CMakeLists.txt says nothing, and
 * elsewhere wrong in one way.
 */
#include <stdlib.h>

#include <rondo/algorithm.h>

/* Rank 0 combines what all send, and sends it back. */
static void all_reduce(struct rd_plan *plan, int rank, int size)
{
	if (rank > 0) {
		rd_send(plan, 0, 0);
		rd_recv(plan, 0, 0);
		return;
	}
	for (int peer = 1; peer < size - 1; peer++)
		rd_recv_reduce(plan, peer, 0);
#ifndef FORGETS_ONE /* the last rank's contribution, of three or more */
	if (size > 1)
		rd_recv_reduce_last(plan, size - 1, 0);
#else
	if (size == 2)
		rd_recv_reduce_last(plan, 1, 0);
#endif
	for (int peer = 1; peer < size; peer++)
		rd_send(plan, peer, 0);
}

static void broadcast(struct rd_plan *plan, int rank, int size, int root)
{
#ifdef IGNORES_ROOT
	root = 0;
#endif
	if (rank != root)
		rd_recv(plan, root, 0);
	for (int peer = 0; peer < size && rank == root; peer++)
		if (peer != root)
			rd_send(plan, peer, 0);
}

static void write_plan(struct rd_plan *plan)
{
	const struct rd_problem *problem = rd_problem_of(plan);

#ifdef CRASHES
	abort();
#endif
	if (problem->collective == RD_ALL_REDUCE)
		all_reduce(plan, problem->rank, problem->size);
	else
		broadcast(plan, problem->rank, problem->size, problem->root);
}

#ifdef DISAGREES
#define MAY_RUN to_two
static bool to_two(const struct rd_problem *problem)
{
	return problem->rank < 2;
}
#else
#define MAY_RUN NULL
#endif

static const struct rd_algorithm tilted = {
	.name = "tilted",
	.collectives = 1 << RD_ALL_REDUCE | 1 << RD_BROADCAST,
	.may_run = MAY_RUN,
	.write_plan = write_plan,
};

RONDO_PLUGIN_ALGORITHMS(&tilted);
