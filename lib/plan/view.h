/*
 * Views (rondo/algorithm.h). They translate the numbers of ranks and chunks that an algorithm
 * writes into the plan's own ("real") numbers. A view lists real numbers, so a view within a view
 * costs no more than the outer one.
 */
#ifndef RD_VIEW_H
#define RD_VIEW_H

#include "plan/plan.h"

/* Calls the algorithm to write the plan in a view of all ranks and blocks, in the order of the
   layout's line. */
void rd_view_along_line(struct rd_plan *plan, const struct rd_algorithm *algorithm);

/* Sets the parts of the view in force. False: there is none, or it shows the plan's own parts. */
bool rd_view_parts(struct rd_plan *plan, int parts);
bool rd_view_is_partial(const struct rd_plan *plan);
/* Refuses a step that needs every rank while a view is in force. Returns whether one is. */
bool rd_view_hides_others(struct rd_plan *plan);

/* The number of chunks in the view in force, or in the plan. */
int rd_view_chunks(const struct rd_plan *plan);
int rd_view_real_rank(const struct rd_plan *plan, int rank);
/* -1: the part has no further chunk in this turn. */
int rd_view_real_chunk(const struct rd_plan *plan, int chunk);

void rd_view_destroy(struct rd_view *view);

#endif
