/*
 * Direct access for data that all ranks are to have. Each rank reads one share of it, once, and
 * writes it into every output while it lies in the first-level cache. Where every rank fetches all
 * data for itself (two_shot.c), n ranks read n times as much. In a broadcast the root, which has
 * nothing to fetch, then does nothing.
 *
 * All_gather: a rank's share is its own block. Broadcast: a part of the root's block.
 */
#include "mesh/mesh.h"

#include "plan/steps.h"

/* Waits for the shares of the other ranks. */
static void expect_others(struct rd_plan *plan)
{
	for (int share = 0; share < plan->problem.size; share++)
		if (share != plan->problem.rank)
			rd_expect(plan, share);
}

static void all_gather(struct rd_plan *plan)
{
	rd_spread(plan, plan->problem.rank, plan->problem.rank);
	expect_others(plan);
	rd_two_shot_part(plan);
}

static void broadcast(struct rd_plan *plan)
{
	const struct rd_problem *problem = &plan->problem;

	rd_plan_parts(plan, problem->size);
	rd_spread(plan, problem->root, problem->rank);
	if (problem->rank != problem->root)
		expect_others(plan);
	rd_two_shot_part(plan);
}

const struct rd_algorithm rd_mesh_spread = {
	.name = "spread",
	.write = { [RD_BROADCAST] = broadcast, [RD_ALL_GATHER] = all_gather },
	.may_run = rd_two_shot_may_run,
	.direct_access = true,
	.on_devices = true,
};
