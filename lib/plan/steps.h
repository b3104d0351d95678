/*
 * Appends steps to a plan. rondo/algorithm.h declares the calls that plug-ins have, too. This
 * header declares the rest, and the functions of the passes over a written plan.
 */
#ifndef RD_PLAN_STEPS_H
#define RD_PLAN_STEPS_H

#include "plan/plan.h"

/*
 * All-to-all by direct access, in place or not: exchanges chunk `theirs` of the peer's input and
 * chunk `ours` of this rank's. One of the two ranks executes it for both.
 */
void rd_swap(struct rd_plan *plan, int peer, int theirs, int ours);
/*
 * Direct access: copies the chunk from one rank's input, which may be this rank's, to the outputs
 * of all. Another rank's chunk is not copied to that rank, whose output in place is the input that
 * the step reads. The other ranks declare it by rd_expect().
 */
void rd_spread(struct rd_plan *plan, int peer, int chunk);

/* ---- For the passes over a written plan ----------------------------------------------------- */

/* The number of chunks of the whole collective, outside all views. */
int rd_plan_chunk_count(const struct rd_plan *plan);
/* Sets the places of all chunks to those before the first step. */
void rd_plan_place_chunks(struct rd_plan *plan);
/* Appends a step, of which only the kind is set. NULL: no memory, which is the plan's error. */
struct rd_step *rd_plan_append(struct rd_plan *plan, enum rd_step_kind kind);

#endif
