#include "plan/refuse.h"

#include "base/error.h"

void rd_plan_refuse(struct rd_plan *plan, const char *what, int peer, int chunk)
{
	if (plan->error)
		return;
	plan->error = rd_fail(RONDO_INVALID, "%s: rank %d of %d, step %d: %s (peer %d, chunk %d)",
		plan->algorithm, plan->real.rank, plan->real.size, plan->step_count, what, peer,
		chunk);
}

void rd_plan_out_of_memory(struct rd_plan *plan)
{
	if (!plan->error)
		plan->error =
			rd_fail(RONDO_MEMORY, "no memory for a plan of %d steps", plan->step_count);
}
