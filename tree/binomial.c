/*
 * Binomial trees: broadcast and reduce of short messages. In each round every rank that has the
 * value sends it to one that has not. The number of ranks served doubles with each of the log2(n)
 * rounds. No rank sends or receives more than that many messages, and the latency is no more than
 * theirs.
 *
 * Source: S. L. Johnsson and C.-T. Ho, "Optimum broadcasting and personalized communication in
 * hypercubes", IEEE Trans. Computers 38 (1989); for any number of ranks as in MPICH. This one
 * counts the ranks from the root along the layout's line, and sends to the farthest first. Most
 * messages, and those of the last rounds, thus go to near ranks.
 *
 * There is no gather or scatter of this kind. Each block is a message of its own here, so passing
 * blocks on for others would add messages and save none at the root.
 */
#include "tree/tree.h"

/* The rank's distance from the root, along the line. */
static int from_root(const struct rd_problem *problem)
{
	return rd_wrap(problem->rank - problem->root, problem->size);
}

static int at(const struct rd_problem *problem, int distance)
{
	return rd_wrap(problem->root + distance, problem->size);
}

/* The span of the subtree that begins here: the lowest bit set; for the root, all. */
static int span(const struct rd_problem *problem)
{
	int here = from_root(problem), all = 1;

	while (all < problem->size)
		all *= 2;
	return here ? here & -here : all;
}

static void broadcast(struct rd_plan *plan)
{
	const struct rd_problem *problem = &plan->problem;
	int here = from_root(problem);

	if (here)
		rd_recv(plan, at(problem, here - span(problem)), 0);
	for (int far = span(problem) / 2; far; far /= 2)
		if (here + far < problem->size)
			rd_send(plan, at(problem, here + far), 0);
}

/* The same tree, backwards. */
static void reduce(struct rd_plan *plan)
{
	const struct rd_problem *problem = &plan->problem;
	int here = from_root(problem);

	for (int far = 1; far < span(problem) && here + far < problem->size; far *= 2) {
		if (!here && 2 * far >= problem->size)
			rd_recv_reduce_last(plan, at(problem, far), 0);
		else
			rd_recv_reduce(plan, at(problem, here + far), 0);
	}
	if (here)
		rd_send(plan, at(problem, here - span(problem)), 0);
}

const struct rd_algorithm rd_binomial = {
	.name = "binomial",
	.write = { [RD_REDUCE] = reduce, [RD_BROADCAST] = broadcast },
	.along_line = true,
};
