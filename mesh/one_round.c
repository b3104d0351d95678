/*
 * One round: each rank sends its data to all ranks that need it, then takes the others' data. Each
 * rank combines for itself. All combine in the order of the ranks, so that all have the same bits.
 *
 * Source: the all-to-all broadcast ("linear", "spread-out") of the textbooks. No other algorithm
 * sends more bytes, but no rank waits more than once. A rank that shares its core can therefore
 * finish a call, and post its part of the next, in one turn. Where ranks share cores, turns take
 * most of the time.
 *
 * This one sends to the next rank first, so that not all send to the same rank at once. It reads
 * all messages in place and combines them in one pass, straight into the result.
 */
#include "mesh/mesh.h"

/* With more ranks, each sends more messages than other algorithms. 16 ranks on two cores already
   take 62 us where doubling takes 48 (lib/tuner/thresholds.h). */
#define RANKS_MOST 16

/* Two ranks have no other way to exchange anything. */
static bool may_run(const struct rd_problem *problem)
{
	return problem->size > 2 && problem->size <= RANKS_MOST;
}

static int after(const struct rd_plan *plan, int s)
{
	return rd_wrap(plan->problem.rank + s, plan->problem.size);
}

static void all_gather(struct rd_plan *plan)
{
	for (int s = 1; s < plan->problem.size; s++)
		rd_send(plan, after(plan, s), plan->problem.rank);
	for (int s = 1; s < plan->problem.size; s++)
		rd_recv(plan, after(plan, s), after(plan, s));
}

static void all_reduce(struct rd_plan *plan)
{
	for (int s = 1; s < plan->problem.size; s++)
		rd_send(plan, after(plan, s), 0);
	rd_recv_merge(plan, 0);
}

static void reduce(struct rd_plan *plan)
{
	if (plan->problem.rank == plan->problem.root)
		rd_recv_merge(plan, 0);
	else
		rd_send(plan, plan->problem.root, 0);
}

static void reduce_scatter(struct rd_plan *plan)
{
	for (int s = 1; s < plan->problem.size; s++)
		rd_send(plan, after(plan, s), after(plan, s));
	rd_recv_merge(plan, plan->problem.rank);
}

const struct rd_algorithm rd_one_round = {
	.name = "one_round",
	.write = {
		[RD_ALL_REDUCE] = all_reduce,
		[RD_REDUCE] = reduce,
		[RD_REDUCE_SCATTER] = reduce_scatter,
		[RD_ALL_GATHER] = all_gather,
	},
	.may_run = may_run,
	.ordered = true,
	.redundant = true,
};
