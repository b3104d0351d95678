#include "plan/refuse.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"

void rd_plan_refuse(struct rd_plan *plan, const char *format, ...)
{
	char what[384];
	va_list args;

	if (plan->error)
		return;
	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	plan->error = rd_fail(RONDO_INVALID, "%s: rank %d of %d, step %d: %s", plan->algorithm,
		plan->real.rank, plan->real.size, plan->step_count, what);
}

void rd_plan_out_of_memory(struct rd_plan *plan)
{
	if (!plan->error)
		plan->error =
			rd_fail(RONDO_MEMORY, "no memory for a plan of %d steps", plan->step_count);
}
