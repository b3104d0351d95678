/*
 * Parallel aggregated trees: all-gather and reduce-scatter in log2(n) rounds for any number of
 * ranks, and an all-reduce of both. Each chunk has a binomial tree of its own, rooted at the rank
 * where it starts or ends. All the trees are the same but for a rotation. In each round every rank
 * therefore sends to one rank and receives from one, with all chunks of that round in one go. As
 * in the ring each rank sends n-1 chunks in all, but each chunk takes log2(n) hops and not n-1.
 *
 * Source: S. Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at
 * scale", arXiv:2506.20252 (2025), in NCCL since 2.23. Its trees are those of J. Bruck et al.,
 * "Efficient algorithms for all-to-all communications in multiport message-passing systems", IEEE
 * TPDS 8 (1997). The farthest hop is first, when there is one chunk to send, and the nearest last,
 * when there are n/2.
 *
 * This one does not split the trees to bound the memory for chunks in transit. That memory is n/2
 * slices of one piece in reduce-scatter, and none in all-gather, which keeps all chunks anyway.
 * The sum of the two as an all-reduce is J. L. Träff's "Optimal, non-pipelined reduce-scatter and
 * allreduce algorithms", arXiv:2410.14234 (2024).
 *
 * There is no all-to-all of this kind. Each block is a message of its own here, so sending blocks
 * by way of others would add messages and save none.
 */
#include "mesh/mesh.h"

#include "mesh/exchange.h"

/*
 * Between two rounds a rank has, or has combined, the chunks of those at multiples of 2 far above
 * it. In the round of `far`, chunks go down that far to be gathered, and up to be reduced.
 */
static struct rd_exchange round_of(const struct rd_problem *problem, int far)
{
	int rank = problem->rank, size = problem->size;
	int below = rd_wrap(rank - far, size), above = rd_wrap(rank + far, size);

	return (struct rd_exchange){
		.to = below,
		.from = above,
		.sends_first = rank / far % 2, /* differs between neighbours in the circle */
		.out = rank,
		.in = above,
		.count = (size - far + 2 * far - 1) / (2 * far),
		.stride = 2 * far,
		.chunks = size,
	};
}

void rd_pat_all_gather(struct rd_plan *plan)
{
	int top = 1;

	while (2 * top < plan->problem.size)
		top *= 2;
	for (int far = top; far && plan->problem.size > 1; far /= 2) {
		struct rd_exchange round = round_of(&plan->problem, far);

		rd_exchange(plan, &round);
	}
}

/* The same trees, backwards. */
static void reduce_scatter(struct rd_plan *plan)
{
	for (int far = 1; far < plan->problem.size; far *= 2) {
		struct rd_exchange round = round_of(&plan->problem, far), back = round;

		back.to = round.from;
		back.from = round.to;
		back.out = round.in;
		back.in = round.out;
		back.taking = 2 * far < plan->problem.size ? RD_TAKE_REDUCE : RD_TAKE_REDUCE_LAST;
		rd_exchange(plan, &back);
	}
}

static void all_reduce(struct rd_plan *plan)
{
	rd_plan_parts(plan, plan->problem.size);
	reduce_scatter(plan);
	rd_pat_all_gather(plan);
}

const struct rd_algorithm rd_pat = {
	.name = "pat",
	.write = {
		[RD_ALL_REDUCE] = all_reduce,
		[RD_REDUCE_SCATTER] = reduce_scatter,
		[RD_ALL_GATHER] = rd_pat_all_gather,
	},
	.along_line = true,
};
