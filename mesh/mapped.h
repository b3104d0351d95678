/* Plans that read and write peers' memory directly. */
#ifndef RD_MAPPED_H
#define RD_MAPPED_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_mapped;

/* What all such plans share: whether there are others; and that nobody goes before all are done. */
bool rd_mapped_may_run(const struct rd_problem *problem);
void rd_mapped_part(struct rd_plan *plan);

#endif
