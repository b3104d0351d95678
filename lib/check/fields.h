/*
 * The part of the checker that looks at the fields of each step: do they name ranks, chunks and
 * memory that there are, as a step of its kind may? What steps do to each other is for overwrite.h,
 * races.h and the checker itself, who count on it.
 */
#ifndef RD_FIELDS_H
#define RD_FIELDS_H

#include "plan/plan.h"

/* Of the plan of one rank, among plans[size] of one call. 0, or RONDO_INVALID with a reason. */
int rd_check_fields(struct rd_plan *const *plans, int size, int rank);

/* Of a HOLD or MERGE, whether it stands where one may: one message of each other rank is held,
   right before they are merged. 0 for any other step. For who runs plans that are not proved. */
int rd_check_merge(const struct rd_plan *plan, int step);

#endif
