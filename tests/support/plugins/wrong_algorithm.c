/*
 * tilted: an all-reduce and a broadcast that are right where CMakeLists.txt says nothing, and
 * elsewhere wrong in one way.
 */
#include <stdlib.h>

#include <rondo/algorithm.h>

#ifdef BY_PROCESS
static void all_reduce_backwards(struct rd_plan *plan)
{
	int rank = rd_problem_of(plan)->rank, last = rd_problem_of(plan)->size - 1;

	if (rank < last) {
		rd_send(plan, last, 0);
		rd_recv(plan, last, 0);
		return;
	}
	for (int peer = 0; peer < last - 1; peer++)
		rd_recv_reduce(plan, peer, 0);
	if (last > 0)
		rd_recv_reduce_last(plan, last - 1, 0);
	for (int peer = 0; peer < last; peer++)
		rd_send(plan, peer, 0);
}
#endif

/* Rank 0 combines what all send, and sends it back. */
static void all_reduce(struct rd_plan *plan)
{
	int rank = rd_problem_of(plan)->rank, size = rd_problem_of(plan)->size;

#ifdef CRASHES
	abort();
#endif
#ifdef BY_PROCESS /* a process whose environment says so has the last rank in rank 0's place */
	if (getenv("TILTED")) {
		all_reduce_backwards(plan);
		return;
	}
#endif
	if (rank > 0) {
		rd_send(plan, 0, 0);
		rd_recv(plan, 0, 0);
		return;
	}
	for (int peer = 1; peer < size - 1; peer++)
		rd_recv_reduce(plan, peer, 0);
#ifndef FORGETS_ONE /* the last rank's contribution, of three or more */
	if (size > 1)
		rd_recv_reduce_last(plan, size - 1, 0);
#else
	if (size == 2)
		rd_recv_reduce_last(plan, 1, 0);
#endif
	for (int peer = 1; peer < size; peer++)
		rd_send(plan, peer, 0);
}

static void broadcast(struct rd_plan *plan)
{
	int rank = rd_problem_of(plan)->rank, size = rd_problem_of(plan)->size;
#ifdef IGNORES_ROOT
	int root = 0;
#else
	int root = rd_problem_of(plan)->root;
#endif

	if (rank != root)
		rd_recv(plan, root, 0);
	for (int peer = 0; peer < size && rank == root; peer++)
		if (peer != root)
			rd_send(plan, peer, 0);
}

#ifdef DISAGREES
#define MAY_RUN to_two
static bool to_two(const struct rd_problem *problem)
{
	return problem->rank < 2;
}
#else
#define MAY_RUN NULL
#endif

#ifdef SERVES_NOTHING
#define WRITE(function) (0 ? (function) : NULL)
#else
#define WRITE(function) function
#endif

static const struct rd_algorithm tilted = {
	.name = "tilted",
	.write = { [RD_ALL_REDUCE] = WRITE(all_reduce), [RD_BROADCAST] = WRITE(broadcast) },
	.may_run = MAY_RUN,
#ifdef DEVICES_ALONE
	.on_devices = true,
#endif
};

RONDO_PLUGIN_ALGORITHMS(&tilted);
