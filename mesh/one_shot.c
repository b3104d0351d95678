/*
 * Direct access, one shot: every rank combines the whole of all ranks' inputs for itself, and
 * writes to its own memory alone. It reads n times as many bytes as two_shot.c, but no written
 * line leaves its writer's cache. For few bytes, or inputs that lie in every rank's cache, that
 * can cost less.
 *
 * Source: the "one-shot" all-reduce of FasterTransformer and vLLM for GPUs that map each other's
 * memory. This one is for host memory, and combines in the order of the ranks, so that all have
 * the same bits. It holds the result back until all have read the inputs: in place it would
 * overwrite inputs that others still combine. It therefore runs by pieces, and holds back one
 * piece at a time.
 */
#include "mesh/mesh.h"

static void all_reduce(struct rd_plan *plan)
{
	rd_combine_aside(plan, 0);
	rd_two_shot_part(plan);
}

const struct rd_algorithm rd_one_shot = {
	.name = "one_shot",
	.write = { [RD_ALL_REDUCE] = all_reduce },
	.may_run = rd_two_shot_may_run,
	.direct_access = true,
	.ordered = true,
	.redundant = true,
};
