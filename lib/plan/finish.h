/* The passes that make a finished plan of what an algorithm has written. */
#ifndef RD_FINISH_H
#define RD_FINISH_H

#include "plan/plan.h"

/*
 * Fuses a receive with the send that follows it, drops stores that nobody reads, adds copies and
 * flushes, as rd_plan_create() says. Returns the plan's error, or 0.
 */
int rd_plan_finish(struct rd_plan *plan);

#endif
