/*
 * One round: each rank sends what it has to all who need it, then takes what the others sent. What
 * is to be combined each combines for itself, all in the order of the ranks, so that all have the
 * same bits.
 *
 * Source: the all-to-all broadcast ("linear", "spread-out") of the textbooks. More bytes are sent
 * than in any other way, but nobody waits more than once; so a rank that shares its core can finish
 * a call, and post its part of the next, in one turn: where ranks share cores it is turns that take
 * the time. Ours sends to the next rank first, so that not all send to the same one at once, and
 * looks at all messages where they lie: they are combined in one pass, straight into the result.
 */
#include "mesh/one_round.h"

/* Of more ranks, each would send more messages than it takes to do without. */
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

static void write_plan(struct rd_plan *plan)
{
	switch (plan->problem.collective) {
	case RD_ALL_REDUCE:
		all_reduce(plan);
		break;
	case RD_REDUCE:
		reduce(plan);
		break;
	case RD_REDUCE_SCATTER:
		reduce_scatter(plan);
		break;
	default:
		all_gather(plan);
	}
}

const struct rd_algorithm rd_one_round = {
	.name = "one_round",
	.collectives =
		1 << RD_ALL_REDUCE | 1 << RD_REDUCE | 1 << RD_REDUCE_SCATTER | 1 << RD_ALL_GATHER,
	.may_run = may_run,
	.write_plan = write_plan,
};
