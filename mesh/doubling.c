/*
 * Recursive doubling: the all-reduce for small messages. In each round every rank exchanges its
 * whole partial result with a partner and combines the two. Each rank sends log2(n) messages, and
 * the latency is no more than theirs. Both partners compute the same combination, so all ranks end
 * with the same bits.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication
 * operations in MPICH", Int. J. High Performance Computing Applications 19 (2005). As there, n may
 * be no power of two. The ranks beyond the largest power then hand their share to a partner first,
 * and get the result from it last. This one begins with the nearest partner along the layout's
 * line.
 */
#include "mesh/mesh.h"

#include "mesh/power.h"

static void all_reduce(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;
	int power = rd_largest_power(size);

	if (rank >= power) {
		rd_send(plan, rank - power, 0);
		rd_recv(plan, rank - power, 0);
		return;
	}
	if (rank + power < size)
		rd_recv_reduce(plan, rank + power, 0);
	/* Before each round the value here is over the ranks that agree with this one above `far`.
	 */
	for (int far = 1; far < power; far *= 2) {
		rd_send(plan, rank ^ far, 0);
		if (2 * far < power)
			rd_recv_reduce(plan, rank ^ far, 0);
		else
			rd_recv_reduce_last(plan, rank ^ far, 0);
	}
	if (rank + power < size)
		rd_send(plan, rank + power, 0);
}

const struct rd_algorithm rd_doubling = {
	.name = "doubling",
	.write = { [RD_ALL_REDUCE] = all_reduce },
	.along_line = true,
};
