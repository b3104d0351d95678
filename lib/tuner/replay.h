/*
 * A replay: runs a schedule (schedule.h) in virtual time with given step costs (step_cost.h). Each
 * step occupies its rank for its cost. A message arrives after its time of flight. Ranks that
 * share a host's cores take turns, all of a core's one after the other: one that waits looks for
 * its message, and yields.
 */
#ifndef RD_REPLAY_H
#define RD_REPLAY_H

#include "tuner/step_cost.h"

/* The times of a replay, from the common start. Ranks that share cores begin in turns. */
struct rd_replayed {
	int64_t ends_ns[RD_REPLAYED_PIECES]; /* when the last rank was done with each piece */
};

/* Replays `pieces` pieces, one after the other, on one channel. One replay of a schedule at a
   time. first: which of a core's ranks has the first turn, from 0 on. False: a deadlock; the plans
   are not valid. */
bool rd_replay(const struct rd_schedule *schedule, const struct rd_step_cost *step_cost, int pieces,
	int first, struct rd_replayed *replayed);

#endif
