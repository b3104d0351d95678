#include "mesh/mesh.h"

/* Ranks that send to each of the others. More of them would need a link of each to each. */
#define DIRECT_MAX 16

static void send_to_each(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	for (int s = 1; s < size; s++)
		rd_send(plan, rd_wrap(rank + s, size), rank);
	for (int s = 1; s < size; s++)
		rd_recv(plan, rd_wrap(rank - s, size), rd_wrap(rank - s, size));
}

static void all_gather(struct rd_plan *plan)
{
	if (plan->problem.size <= DIRECT_MAX)
		send_to_each(plan);
	else
		rd_pat_all_gather(plan);
}

const struct rd_algorithm rd_buffer_exchange_plan = {
	.name = "buffer_exchange",
	.write = { [RD_ALL_GATHER] = all_gather },
};
