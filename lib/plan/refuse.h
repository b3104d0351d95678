/*
 * The error of a plan that is being written: the first one sticks, and every later call does
 * nothing.
 */
#ifndef RD_REFUSE_H
#define RD_REFUSE_H

#include "plan/plan.h"

/* RONDO_INVALID: the algorithm's step makes no sense. */
void rd_plan_refuse(struct rd_plan *plan, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void rd_plan_out_of_memory(struct rd_plan *plan);

#endif
