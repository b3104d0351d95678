/*
 * The error of a plan that is being written: the first one sticks, and every later call does
 * nothing.
 */
#ifndef RD_REFUSE_H
#define RD_REFUSE_H

#include "plan/plan.h"

/* RONDO_INVALID: the algorithm's step makes no sense. peer, chunk: -1 where there is none. */
void rd_plan_refuse(struct rd_plan *plan, const char *what, int peer, int chunk);
void rd_plan_out_of_memory(struct rd_plan *plan);

#endif
