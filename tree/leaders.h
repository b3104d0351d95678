/* One rank of each group, its leader, speaks for the others: the fewest messages on dear links. */
#ifndef RD_LEADERS_H
#define RD_LEADERS_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_leaders;

/* A reduce, or a broadcast, in two levels, each written by this algorithm. The plan is for the
   whole problem, whose layout has groups, and has one part. */
void rd_leaders_reduce(struct rd_plan *plan, const struct rd_algorithm *algorithm);
void rd_leaders_broadcast(struct rd_plan *plan, const struct rd_algorithm *algorithm);

#endif
