/*
 * Means of f16, bf16 and f8 where partial sums travel: the call runs on f32, which holds them, from
 * a copy of its input. The mean is rounded once. Where all inputs are at hand (direct access), that
 * is not needed (exec/mean.h).
 */
#ifndef RD_WIDEN_H
#define RD_WIDEN_H

#include "exec/call.h"
#include "exec/mean.h"

struct rd_widened;

static inline bool rd_call_needs_widening(const struct rd_call *call)
{
	return call->op == RONDO_AVG && rd_type_is_narrow(call->type) && call->problem.size > 1;
}

/* Makes it a call on f32 with the same input. Returns 0 or RONDO_MEMORY. */
int rd_widen_call(struct rd_widened **widened, struct rd_call *call);

/* The call has run: rounds its result into the output that it was made with. rd_widened_destroy()
   comes next. */
void rd_widened_finish(const struct rd_widened *widened);

/* Makes it the call that it was. */
void rd_widened_destroy(struct rd_widened *widened, struct rd_call *call);

#endif
