#include "mesh/mesh.h"

static void all_gather(struct rd_plan *plan)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	for (int s = 1; s < size; s++)
		rd_send(plan, rd_wrap(rank + s, size), rank);
	for (int s = 1; s < size; s++)
		rd_recv(plan, rd_wrap(rank - s, size), rd_wrap(rank - s, size));
}

const struct rd_algorithm rd_buffer_exchange_plan = {
	.name = "buffer_exchange",
	.write = { [RD_ALL_GATHER] = all_gather },
};
