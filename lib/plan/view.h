/*
 * Views, as the plan builder sees them; rondo/algorithm.h says what they are. What authors write in
 * a view's numbers becomes the plan's own ("real") numbers here. A view lists real numbers, so one
 * that is made within another costs no more than that other.
 */
#ifndef RD_VIEW_H
#define RD_VIEW_H

#include "plan/plan.h"

/* Has the algorithm write the plan in a view of all ranks and blocks, in the order of the layout's
 * line. */
void rd_view_along_line(struct rd_plan *plan, const struct rd_algorithm *algorithm);

/* Whether a view of chosen chunks is in force, so that the parts were its alone. */
bool rd_view_parts(struct rd_plan *plan, int parts);
bool rd_view_is_partial(const struct rd_plan *plan);
/* Whether a view is in force; then that is the plan's error, for what needs every rank. */
bool rd_view_hides_others(struct rd_plan *plan);

/* Chunks that there are, in the numbers of what is in force. */
int rd_view_chunks(const struct rd_plan *plan);
int rd_view_real_rank(const struct rd_plan *plan, int rank);
/* -1: none this time. */
int rd_view_real_chunk(const struct rd_plan *plan, int chunk);

void rd_view_destroy(struct rd_view *view);

#endif
