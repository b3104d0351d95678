/*
 * Parallel aggregated trees: all-gather and reduce-scatter in log2(n) rounds for any number of
 * ranks, and an all-reduce of both. Each chunk has a binomial tree of its own, rooted at the rank
 * that starts or ends with it; all the trees are the same but for a turn, so in each round every
 * rank sends to one other, and receives from one, all that the trees have it pass on there. Like
 * the ring each rank sends n-1 chunks in all, but the way of each is log2(n) hops and not n-1.
 *
 * Source: S. Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale",
 * arXiv:2506.20252 (2025), in NCCL since 2.23; its trees are those of J. Bruck et al., "Efficient
 * algorithms for all-to-all communications in multiport message-passing systems", IEEE TPDS 8
 * (1997), with the farthest hop first, when there is one chunk to send, and the nearest last, when
 * there are n/2. Ours does not go through the trees in parts so as to bound the memory for what is
 * on its way: that is n/2 slices of one piece in reduce-scatter, and none in all-gather, where all
 * is kept anyway. To add the two to an all-reduce is J. L. Träff's "Optimal, non-pipelined
 * reduce-scatter and allreduce algorithms", arXiv:2410.14234 (2024).
 *
 * There is no all-to-all of this kind: each block is a message of its own here, so to send blocks
 * by way of others would add messages and save none.
 */
#include "pat.h"

static int at(const struct rd_plan *plan, int distance)
{
	return rd_wrap(plan->problem.rank + distance, plan->problem.size);
}

/* Before the round of `far`, a rank has the chunks of those at multiples of 2 far above it. */
static void all_gather(struct rd_plan *plan)
{
	int size = plan->problem.size, top = 1;

	while (2 * top < size)
		top *= 2;
	for (int far = top; far; far /= 2) {
		for (int k = 0; k + far < size; k += 2 * far) {
			rd_send(plan, at(plan, -far), at(plan, k));
			rd_recv(plan, at(plan, far), at(plan, far + k));
		}
	}
}

/* The same trees, backwards. */
static void reduce_scatter(struct rd_plan *plan)
{
	int size = plan->problem.size;

	for (int far = 1; far < size; far *= 2) {
		for (int k = 0; k + far < size; k += 2 * far) {
			rd_send(plan, at(plan, far), at(plan, far + k));
			if (k == 0 && 2 * far >= size)
				rd_recv_reduce_last(plan, at(plan, -far), at(plan, k));
			else
				rd_recv_reduce(plan, at(plan, -far), at(plan, k));
		}
	}
}

static void write_plan(struct rd_plan *plan)
{
	switch (plan->problem.collective) {
	case RD_ALL_REDUCE:
		rd_plan_parts(plan, plan->problem.size);
		reduce_scatter(plan);
		all_gather(plan);
		break;
	case RD_REDUCE_SCATTER:
		reduce_scatter(plan);
		break;
	default:
		all_gather(plan);
	}
}

const struct rd_algorithm rd_pat = {
	.name = "pat",
	.collectives = 1 << RD_ALL_REDUCE | 1 << RD_REDUCE_SCATTER | 1 << RD_ALL_GATHER,
	.along_line = true,
	.write_plan = write_plan,
};
