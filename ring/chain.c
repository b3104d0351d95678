/*
 * The chain. Partial results go from rank 0 to the last rank; each rank combines the incoming one
 * with its own input. The result is ((0 op 1) op 2) op ... in this order. It then goes back from
 * the last rank to the ranks that want it.
 *
 * One rank at a time combines an element, in one order. All ranks therefore hold the same result
 * even of an operation that is neither commutative nor associative. User-defined operations run on
 * the chain.
 *
 * Source: the "pipeline" of the textbooks. This one lets several chunks follow each other up the
 * chain before the first returns. Ranks stand in the order of their numbers, not of the layout.
 */
#include "ring/ring.h"

/* The chunk is complete on the last rank. */
static void combine(struct rd_plan *plan, int chunk)
{
	int rank = plan->problem.rank, last = plan->problem.size - 1;

	if (last == 0)
		return;
	if (rank == last)
		rd_recv_reduce_last(plan, rank - 1, chunk);
	else if (rank > 0)
		rd_recv_reduce(plan, rank - 1, chunk);
	if (rank < last)
		rd_send(plan, rank + 1, chunk);
}

static void all_reduce(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	rd_plan_parts(plan, size);
	for (int chunk = 0; chunk < size; chunk++)
		combine(plan, chunk);
	for (int chunk = 0; chunk < size; chunk++) {
		if (rank < size - 1)
			rd_recv(plan, rank + 1, chunk);
		if (rank > 0)
			rd_send(plan, rank - 1, chunk);
	}
}

/* From the last rank to the one that wants it. */
static void deliver(struct rd_plan *plan, int chunk, int to)
{
	int rank = plan->problem.rank, last = plan->problem.size - 1;

	if (to == last)
		return;
	if (rank == last)
		rd_send(plan, to, chunk);
	else if (rank == to)
		rd_recv(plan, last, chunk);
}

static void reduce_scatter(struct rd_plan *plan)
{
	for (int block = 0; block < plan->problem.size; block++)
		combine(plan, block);
	for (int block = 0; block < plan->problem.size; block++)
		deliver(plan, block, block);
}

static void reduce(struct rd_plan *plan)
{
	int size = plan->problem.size, root = plan->problem.root;

	/* The last rank as root sends nothing on. */
	if (root != size - 1)
		rd_plan_parts(plan, size);
	for (int chunk = 0; chunk < plan->parts; chunk++)
		combine(plan, chunk);
	for (int chunk = 0; chunk < plan->parts; chunk++)
		deliver(plan, chunk, root);
}

const struct rd_algorithm rd_chain = {
	.name = "chain",
	.write = {
		[RD_ALL_REDUCE] = all_reduce,
		[RD_REDUCE] = reduce,
		[RD_REDUCE_SCATTER] = reduce_scatter,
	},
	.ordered = true,
};
