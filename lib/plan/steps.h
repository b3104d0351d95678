/*
 * Appending steps to a plan. Most calls of authors are declared in rondo/algorithm.h; here are
 * those that plug-ins do not have, and what the passes over a written plan need.
 */
#ifndef RD_PLAN_STEPS_H
#define RD_PLAN_STEPS_H

#include "plan/plan.h"

/*
 * All_to_all by direct access, in place or not: chunk `theirs` of `peer`'s input comes here, and
 * `ours` of our input goes there. One of the two ranks does it for both.
 */
void rd_swap(struct rd_plan *plan, int peer, int theirs, int ours);
/*
 * Direct access: the chunk of one rank's input, which may be our own, goes to the outputs of all;
 * but where it is another's, not to its own, which in place is what we read. The others expect it.
 */
void rd_spread(struct rd_plan *plan, int peer, int chunk);

/* ---- For the passes over a written plan ----------------------------------------------------- */

/* Chunks of the whole collective, whatever view is in force. */
int rd_plan_chunk_count(const struct rd_plan *plan);
/* Where the chunks lie before the first step; forgets everything written so far. */
void rd_plan_place_chunks(struct rd_plan *plan);
/* A further step, of which the kind alone is set; NULL: no memory, which is the plan's error. */
struct rd_step *rd_plan_append(struct rd_plan *plan, enum rd_step_kind kind);

#endif
