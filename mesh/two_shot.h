/* Plans that read and write peers' memory directly. */
#ifndef RD_TWO_SHOT_H
#define RD_TWO_SHOT_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_two_shot;

/* Shared by all plans of direct access. The first: there are other ranks. The second: no rank
   ends before all are done. */
bool rd_two_shot_may_run(const struct rd_problem *problem);
void rd_two_shot_part(struct rd_plan *plan);

#endif
