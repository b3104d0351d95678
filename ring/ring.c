/*
 * The ring. Reduce-scatter, then all-gather, round the ring of ranks. Each rank sends and receives
 * 2 (n-1)/n of the buffer, the least that any all-reduce can do.
 *
 * Source: P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", J. Parallel Distrib. Comput. 69 (2009). There are two differences. Partial sums
 * are forwarded as they arrive and never touch the output (the plan's finishing fuses the steps).
 * The whole ring runs over pieces in a pipeline.
 *
 * The ring follows the layout's line, so it enters and leaves each host once.
 *
 * Reduce and broadcast are chains. Pieces follow each other along the ring, so a long buffer takes
 * hardly more time than one hop.
 */
#include "ring/ring.h"

static int next_of(const struct rd_problem *problem)
{
	return rd_wrap(problem->rank + 1, problem->size);
}

static int prev_of(const struct rd_problem *problem)
{
	return rd_wrap(problem->rank - 1, problem->size);
}

/* After step s, chunk rank-s-2 here is the sum over s+2 ranks; after the last, chunk `rank` over
 * all. */
static void reduce_scatter(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;
	int next = next_of(&plan->problem), prev = prev_of(&plan->problem);

	for (int s = 0; s < size - 1; s++) {
		rd_send(plan, next, rd_wrap(rank - s - 1, size));
		if (s < size - 2)
			rd_recv_reduce(plan, prev, rd_wrap(rank - s - 2, size));
		else
			rd_recv_reduce_last(plan, prev, rank);
	}
}

/* Chunk `rank` starts here; each step hands on the chunk that came last. */
static void all_gather(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;
	int next = next_of(&plan->problem), prev = prev_of(&plan->problem);

	for (int s = 0; s < size - 1; s++) {
		rd_send(plan, next, rd_wrap(rank - s, size));
		rd_recv(plan, prev, rd_wrap(rank - s - 1, size));
	}
}

static void all_reduce(struct rd_plan *plan)
{
	rd_plan_parts(plan, plan->problem.size);
	reduce_scatter(plan);
	all_gather(plan);
}

/* Along the ring, from the root's next neighbour round to the root. */
static void reduce(struct rd_plan *plan)
{
	const struct rd_problem *problem = &plan->problem;
	int from_root = rd_wrap(problem->rank - problem->root, problem->size);

	if (problem->size == 1)
		return;
	if (from_root == 0) {
		rd_recv_reduce_last(plan, prev_of(problem), 0);
		return;
	}
	if (from_root > 1)
		rd_recv_reduce(plan, prev_of(problem), 0);
	rd_send(plan, next_of(problem), 0);
}

/* Along the ring, from the root round to the rank before it. */
static void broadcast(struct rd_plan *plan)
{
	const struct rd_problem *problem = &plan->problem;
	int from_root = rd_wrap(problem->rank - problem->root, problem->size);

	if (from_root > 0)
		rd_recv(plan, prev_of(problem), 0);
	if (from_root < problem->size - 1)
		rd_send(plan, next_of(problem), 0);
}

const struct rd_algorithm rd_ring = {
	.name = "ring",
	.write = {
		[RD_ALL_REDUCE] = all_reduce,
		[RD_REDUCE] = reduce,
		[RD_BROADCAST] = broadcast,
		[RD_REDUCE_SCATTER] = reduce_scatter,
		[RD_ALL_GATHER] = all_gather,
	},
	.along_line = true,
};
