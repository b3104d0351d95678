/* The passes over a plan that an algorithm has written. */
#ifndef RD_FINISH_H
#define RD_FINISH_H

#include "plan/plan.h"

/*
 * Fuses each receive with the send that follows it. Drops stores that no step reads. Adds copies of
 * inputs that the output must hold. Returns the plan's error, or 0.
 */
int rd_plan_finish(struct rd_plan *plan);
/* The last pass: adds a FLUSH before each step that writes to memory which an earlier send may
   still read, in place or not. Returns the plan's error, or 0. */
int rd_plan_add_flushes(struct rd_plan *plan);

#endif
