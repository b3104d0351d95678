/*
 * Direct exchange: each rank sends its data straight to the ranks that need it. Each block crosses
 * one link once, the least possible. For the collectives that combine nothing.
 *
 * The order of partners in all_to_all is the round-robin tournament (the "circle method"). In step
 * s ranks a and b with a + b = s modulo size meet. Both directions of a pair are then busy at
 * once. In place, a block leaves before its counterpart takes its room.
 *
 * The barrier is the dissemination barrier: D. Hensgen, R. Finkel and U. Manber, "Two algorithms
 * for barrier synchronization", Int. J. Parallel Programming 17 (1988).
 */
#include "mesh/mesh.h"

static void all_to_all(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	for (int s = 0; s < size; s++) {
		int partner = rd_wrap(s - rank, size);

		if (partner == rank)
			continue;
		rd_send(plan, partner, rank * size + partner);
		rd_recv(plan, partner, partner * size + rank);
	}
}

static void gather(struct rd_plan *plan)
{
	const struct rd_problem *problem = &plan->problem;

	if (problem->rank != problem->root) {
		rd_send(plan, problem->root, problem->rank);
		return;
	}
	for (int s = 1; s < problem->size; s++) {
		int peer = rd_wrap(problem->root + s, problem->size);

		rd_recv(plan, peer, peer);
	}
}

static void scatter(struct rd_plan *plan)
{
	const struct rd_problem *problem = &plan->problem;

	if (problem->rank != problem->root) {
		rd_recv(plan, problem->root, problem->rank);
		return;
	}
	for (int s = 1; s < problem->size; s++) {
		int peer = rd_wrap(problem->root + s, problem->size);

		rd_send(plan, peer, peer);
	}
}

static void transfer(struct rd_plan *plan)
{
	const struct rd_problem *problem = &plan->problem;

	if (problem->root == problem->target)
		return;
	if (problem->rank == problem->root)
		rd_send(plan, problem->target, 0);
	else if (problem->rank == problem->target)
		rd_recv(plan, problem->root, 0);
}

/* After round k each rank depends, through others, on the 2^(k+1) - 1 ranks before it. */
static void barrier(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	for (int far = 1; far < size; far *= 2) {
		rd_send(plan, rd_wrap(rank + far, size), 0);
		if (2 * far < size)
			rd_recv_reduce(plan, rd_wrap(rank - far, size), 0);
		else
			rd_recv_reduce_last(plan, rd_wrap(rank - far, size), 0);
	}
}

const struct rd_algorithm rd_linear = {
	.name = "linear",
	.write = {
		[RD_GATHER] = gather,
		[RD_SCATTER] = scatter,
		[RD_ALL_TO_ALL] = all_to_all,
		[RD_TRANSFER] = transfer,
		[RD_BARRIER] = barrier,
	},
	.pairwise = true,
};
