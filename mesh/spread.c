/*
 * Direct access for data that all ranks are to have. Each rank reads one share of it, once, and
 * writes it into every output while it lies in the first-level cache. Where every rank fetches all
 * data for itself (two_shot.c), n ranks read n times as much. In a broadcast the root, which has
 * nothing to fetch, then does nothing.
 *
 * All_gather: a rank's share is its own block. Broadcast: a part of the root's block.
 */
#include "mesh/spread.h"

#include "mesh/two_shot.h"
#include "plan/steps.h"

static void write_plan(struct rd_plan *plan)
{
	const struct rd_problem *problem = &plan->problem;
	bool gathers = problem->collective == RD_ALL_GATHER,
	     is_root = problem->rank == problem->root;

	rd_plan_parts(plan, gathers ? 1 : problem->size);
	rd_spread(plan, gathers ? problem->rank : problem->root, problem->rank);
	for (int share = 0; share < problem->size && (gathers || !is_root); share++)
		if (share != problem->rank)
			rd_expect(plan, share);
	rd_two_shot_part(plan);
}

const struct rd_algorithm rd_spreading = {
	.name = "spread",
	.collectives = 1 << RD_BROADCAST | 1 << RD_ALL_GATHER,
	.may_run = rd_two_shot_may_run,
	.direct_access = true,
	.write_plan = write_plan,
};
