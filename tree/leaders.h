/* One rank of each group, its leader, acts for the others: the fewest messages on slow links. */
#ifndef RD_LEADERS_H
#define RD_LEADERS_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_leaders;

/* Write a reduce, or a broadcast, in two levels, each by this algorithm. The plan is for the
   whole problem, whose layout has groups, and has one part. */
void rd_leaders_reduce(struct rd_plan *plan, const struct rd_algorithm *algorithm);
void rd_leaders_broadcast(struct rd_plan *plan, const struct rd_algorithm *algorithm);

#endif
