/*
 * Recursive halving, then doubling: an all-reduce in 2 log2(n) rounds. It moves no more bytes than
 * the ring where n is a power of two. In each round of the first half two partners divide the part
 * that both still have, and each combines its half. In the second half they hand the results back
 * the same way.
 *
 * Source: R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; R.
 * Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in
 * MPICH", Int. J. High Performance Computing Applications 19 (2005).
 *
 * This one meets the nearest partner along the layout's line first, when half of the buffer is
 * exchanged. It meets the farthest last, when 1/n is exchanged, so that slow links carry least. As
 * in doubling, partners do the part of the ranks beyond the largest power of two.
 */
#include "mesh/mesh.h"

#include "mesh/exchange.h"
#include "mesh/power.h"

/*
 * The chunks that two partners at this distance have left, or will have: those whose numbers agree
 * with one of theirs in the bits up to that of `far`. A rank's own half, and its partner's, are
 * `out` and `in` when results go back; the other way about when they are combined.
 */
static struct rd_exchange halves(int rank, int far, int power)
{
	return (struct rd_exchange){
		.to = rank ^ far,
		.from = rank ^ far,
		.sends_first = rank & far,
		.out = rank & (2 * far - 1),
		.in = (rank ^ far) & (2 * far - 1),
		.count = power / (2 * far),
		.stride = 2 * far,
		.chunks = power,
	};
}

static void halve(struct rd_plan *plan, int power)
{
	for (int far = 1; far < power; far *= 2) {
		struct rd_exchange exchange = halves(plan->problem.rank, far, power);
		int mine = exchange.out;

		exchange.out = exchange.in;
		exchange.in = mine;
		exchange.taking = 2 * far < power ? RD_TAKE_REDUCE : RD_TAKE_REDUCE_LAST;
		rd_exchange(plan, &exchange);
	}
}

static void gather_back(struct rd_plan *plan, int power)
{
	for (int far = power / 2; far; far /= 2) {
		struct rd_exchange exchange = halves(plan->problem.rank, far, power);

		rd_exchange(plan, &exchange);
	}
}

static void all_reduce(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;
	int power = rd_largest_power(size);
	bool helps = rank + power < size, is_helped = rank >= power;

	rd_plan_parts(plan, power);
	for (int chunk = 0; chunk < power; chunk++) {
		if (is_helped)
			rd_send(plan, rank - power, chunk);
		else if (helps)
			rd_recv_reduce(plan, rank + power, chunk);
	}
	if (!is_helped) {
		halve(plan, power);
		gather_back(plan, power);
	}
	for (int chunk = 0; chunk < power; chunk++) {
		if (is_helped)
			rd_recv(plan, rank - power, chunk);
		else if (helps)
			rd_send(plan, rank + power, chunk);
	}
}

const struct rd_algorithm rd_halving = {
	.name = "halving",
	.write = { [RD_ALL_REDUCE] = all_reduce },
	.along_line = true,
};
