/*
 * A replay: a schedule (schedule.h) played in virtual time at one step cost (step_cost.h). A step takes
 * its rank so long, a message arrives so much later, and ranks that share a host's cores take
 * turns.
 */
#ifndef RD_REPLAY_H
#define RD_REPLAY_H

#include "tuner/step_cost.h"

/* Plays so many pieces, one after the other, on one channel. ends_ns: when the last rank was done
   with each. One at a time, for a schedule. False: nothing can go on, and not all is done. The plans
   are not sound, then. */
bool rd_play(const struct rd_schedule *schedule, const struct rd_step_cost *step_cost, int pieces,
	int64_t ends_ns[RD_PLAYED_PIECES]);

#endif
