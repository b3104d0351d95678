/*
 * Direct access: every rank can address every other rank's buffers, so plans send signals alone.
 * For a reduction each rank takes one share of the buffer. It reads that from all ranks, combines
 * it, and writes the result to all ranks that want it. Each byte of input is read once, and each
 * byte of output written once, the least possible. Data that only moves is fetched by the rank
 * that needs it or, in all to all, swapped.
 *
 * Source: the "two-shot" all-reduce for GPUs that map each other's memory (NVIDIA's
 * FasterTransformer and vLLM's custom all-reduce have it). This one is for any number of ranks, in
 * both memories. Its second shot is in the same pass: a block is written out while it is still in
 * the first-level cache. It therefore synchronises no more often than one_shot.c.
 *
 * A rank may not return while others still use its buffers: all signal all when they are done.
 */
#include "mesh/mesh.h"

#include "plan/steps.h"

/* A rank alone has no peer. */
bool rd_two_shot_may_run(const struct rd_problem *problem)
{
	return problem->size > 1;
}

void rd_two_shot_part(struct rd_plan *plan)
{
	for (int peer = 0; peer < plan->problem.size; peer++)
		if (peer != plan->problem.rank)
			rd_signal(plan, peer);
	for (int peer = 0; peer < plan->problem.size; peer++)
		if (peer != plan->problem.rank)
			rd_await(plan, peer);
}

/* Each rank combines one share for all, or for the root. */
static void combine_share(struct rd_plan *plan, int to)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	rd_plan_parts(plan, size);
	rd_combine(plan, to, rank);
	for (int share = 0; share < size && (to < 0 || to == rank); share++)
		if (share != rank)
			rd_expect(plan, share);
	rd_two_shot_part(plan);
}

static void all_reduce(struct rd_plan *plan)
{
	combine_share(plan, -1);
}

static void reduce(struct rd_plan *plan)
{
	combine_share(plan, plan->problem.root);
}

static void reduce_scatter(struct rd_plan *plan)
{
	rd_combine(plan, plan->problem.rank, plan->problem.rank);
	rd_two_shot_part(plan);
}

/* Every chunk that the output here must hold and the input does not. */
static void fetch(struct rd_plan *plan)
{
	const struct rd_problem *problem = &plan->problem;

	for (int s = 1; s < problem->size; s++) {
		int peer = rd_wrap(problem->rank + s, problem->size);
		struct rd_problem there = *problem;

		there.rank = peer;
		for (int block = 0; block < rd_blocks(problem); block++)
			if (rd_out_block(problem, block) >= 0 && rd_in_block(problem, block) < 0 &&
				rd_in_block(&there, block) >= 0)
				rd_fetch(plan, peer, block);
	}
	rd_two_shot_part(plan);
}

/*
 * In place, a block that is fetched takes the room of one that its peer still wants. So blocks are
 * not fetched but swapped, by one of the two ranks for both; and so that both have as much to do,
 * each does it for one half.
 */
static void all_to_all(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	rd_plan_parts(plan, 2);
	for (int s = 1; s < size; s++) {
		int peer = rd_wrap(rank + s, size), half = rank > peer;

		rd_swap(plan, peer, 2 * (peer * size + rank) + half,
			2 * (rank * size + peer) + half);
	}
	for (int s = 1; s < size; s++) {
		int peer = rd_wrap(rank + s, size), half = rank < peer;

		rd_expect(plan, 2 * (peer * size + rank) + half);
	}
	rd_two_shot_part(plan);
}

const struct rd_algorithm rd_two_shot = {
	.name = "two_shot",
	.write = {
		[RD_ALL_REDUCE] = all_reduce,
		[RD_REDUCE] = reduce,
		[RD_BROADCAST] = fetch,
		[RD_REDUCE_SCATTER] = reduce_scatter,
		[RD_ALL_GATHER] = fetch,
		[RD_GATHER] = fetch,
		[RD_SCATTER] = fetch,
		[RD_ALL_TO_ALL] = all_to_all,
	},
	.may_run = rd_two_shot_may_run,
	.direct_access = true,
	.on_devices = true,
	.ordered = true,
	.pairwise = true,
};
