/*
 * The part of the checker that checks the fields of each step. The ranks, chunks and memory that
 * they name must exist and suit the kind of step. The effects of steps on each other are checked
 * in overwrite.h, races.h and checker.c, which need valid fields.
 */
#ifndef RD_FIELDS_H
#define RD_FIELDS_H

#include "plan/plan.h"

/* Checks the plan of one rank, among plans[size] of one call. Returns 0, or RONDO_INVALID with a
   reason. */
int rd_check_fields(struct rd_plan *const *plans, int size, int rank);

/* Checks the place of a HOLD or MERGE: one message of each other rank is held, right before they
   are merged. Returns 0 for any other step. For callers that run unproved plans. */
int rd_check_merge(const struct rd_plan *plan, int step);

#endif
