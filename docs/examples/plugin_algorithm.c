/*
 * star: all ranks send to one, the hub, which combines and sends back. The hub does all the work,
 * so star suits few ranks and small buffers. It is as short as an algorithm gets.
 *
 *     cc -shared -fPIC plugin_algorithm.c $(pkg-config --cflags rondo) -o libstar.so
 */
#include <rondo/algorithm.h>

/* The hub is the root, or rank 0 where the collective has none. There is one chunk, number 0. */
static void reduce(struct rd_plan *plan)
{
	const struct rd_problem *problem = rd_problem_of(plan);
	int others = problem->size - 1;

	if (problem->rank != problem->root) {
		rd_send(plan, problem->root, 0);
		return;
	}
	for (int i = 1; i <= others; i++) {
		int peer = rd_wrap(problem->root + i, problem->size);

		if (i < others)
			rd_recv_reduce(plan, peer, 0);
		else /* Now it holds every rank's contribution: an average divides here. */
			rd_recv_reduce_last(plan, peer, 0);
	}
}

static void broadcast(struct rd_plan *plan)
{
	const struct rd_problem *problem = rd_problem_of(plan);

	if (problem->rank != problem->root) {
		rd_recv(plan, problem->root, 0);
		return;
	}
	for (int i = 1; i < problem->size; i++)
		rd_send(plan, rd_wrap(problem->root + i, problem->size), 0);
}

static void all_reduce(struct rd_plan *plan)
{
	reduce(plan);
	broadcast(plan);
}

static const struct rd_algorithm star = {
	.name = "star",
	.write = {
		[RD_ALL_REDUCE] = all_reduce,
		[RD_REDUCE] = reduce,
		[RD_BROADCAST] = broadcast,
	},
};

RONDO_PLUGIN_ALGORITHMS(&star);
