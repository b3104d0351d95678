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
#include "mesh/two_shot.h"

#include "plan/steps.h"

/* Alone there is nobody to reach for. */
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
static void reduce(struct rd_plan *plan, int to)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	rd_plan_parts(plan, size);
	rd_combine(plan, to, rank);
	for (int share = 0; share < size && (to < 0 || to == rank); share++)
		if (share != rank)
			rd_expect(plan, share);
}

/* Every chunk that the output here must hold and the input does not. */
static void fetch_all(struct rd_plan *plan)
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
}

/*
 * In place, a block that is fetched takes the room of one that its peer still wants. So blocks are
 * not fetched but swapped, by one of the two ranks for both; and so that both have as much to do,
 * each does it for one half.
 */
static void swap_all(struct rd_plan *plan)
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
}

static void write_plan(struct rd_plan *plan)
{
	switch (plan->problem.collective) {
	case RD_ALL_REDUCE:
		reduce(plan, -1);
		break;
	case RD_REDUCE:
		reduce(plan, plan->problem.root);
		break;
	case RD_REDUCE_SCATTER:
		rd_combine(plan, plan->problem.rank, plan->problem.rank);
		break;
	case RD_ALL_TO_ALL:
		swap_all(plan);
		break;
	default:
		fetch_all(plan);
	}
	rd_two_shot_part(plan);
}

const struct rd_algorithm rd_two_shot = {
	.name = "two_shot",
	.collectives = 1 << RD_ALL_REDUCE | 1 << RD_REDUCE | 1 << RD_REDUCE_SCATTER |
		       1 << RD_BROADCAST | 1 << RD_ALL_GATHER | 1 << RD_GATHER | 1 << RD_SCATTER |
		       1 << RD_ALL_TO_ALL,
	.may_run = rd_two_shot_may_run,
	.direct_access = true,
	.write_plan = write_plan,
};
