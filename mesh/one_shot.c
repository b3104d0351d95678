/*
 * Direct access, one shot: every rank combines the whole of all ranks' inputs for itself, and
 * writes to no memory but its own. It reads n times as much as two_shot.c does, and no line leaves
 * the cache of who wrote it: for few bytes, or inputs that lie in everybody's cache, that can be
 * the less.
 *
 * Source: the "one-shot" all-reduce of FasterTransformer and vLLM for GPUs that map each other's
 * memory; ours is for host memory, combines in the order of the ranks, so that all have the same
 * bits, and puts the result aside until all have read: in place it would overwrite what others
 * still combine. So it goes by pieces, of which one is aside at a time.
 */
#include "mesh/one_shot.h"

#include "mesh/two_shot.h"

static void write_plan(struct rd_plan *plan)
{
	rd_combine_aside(plan, 0);
	rd_two_shot_part(plan);
}

const struct rd_algorithm rd_one_shot = {
	.name = "one_shot",
	.collectives = 1 << RD_ALL_REDUCE,
	.may_run = rd_two_shot_may_run,
	.direct_access = true,
	.write_plan = write_plan,
};
