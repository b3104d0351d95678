/*
 * A broadcast by direct access, to which the root lends a hand: each receiver fetches all of the
 * root's buffer but one share, and that one the root stores into its output. So of n ranks, each on
 * a core of its own, none copies more than (n - 1) / n of the buffer, and two take half as long as
 * the one receiver of mapped.c.
 */
#include "push_pull.h"

#include "mapped.h"

static void write_plan(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size, root = plan->problem.root;
	int pushed = size - 1;

	rd_plan_parts(plan, size);
	for (int s = 1; s < size && rank == root; s++)
		rd_store(plan, rd_wrap(root + s, size), pushed);
	for (int part = 0; part < pushed && rank != root; part++)
		rd_fetch(plan, root, part);
	if (rank != root)
		rd_expect(plan, pushed);
	rd_mapped_part(plan);
}

const struct rd_algorithm rd_push_pull = {
	.name = "push_pull",
	.collectives = 1 << RD_BROADCAST,
	.may_run = rd_mapped_may_run,
	.mapped = true,
	.write_plan = write_plan,
};
