/*
 * The part of the checker that reads one plan alone, in program order. It proves that no step
 * overwrites memory of its rank that another step of its rank still needs. races.h checks the
 * accesses of other ranks.
 */
#ifndef RD_OVERWRITE_H
#define RD_OVERWRITE_H

#include "plan/plan.h"

/*
 * The plan's fields must be valid. Returns RONDO_INVALID with the reason where, out of place or in
 * place,
 *   - a step reads an input that an earlier one has overwritten;
 *   - a step writes to memory that an earlier one may still be sending from, with no FLUSH of that
 *     one between.
 */
int rd_check_overwrites(const struct rd_plan *plan);

#endif
