/*
 * The checker: proves symbolically that the plans of one collective on `size` ranks are correct.
 * It does no I/O. It runs the plans over links that hold two messages in each direction
 * (rondo/transport.h). One lies at the sender, in the memory it came from, and one at the
 * receiver.
 *
 * It checks the finished plans, the very steps that the executors run. It proves:
 *   - at the end each output chunk that the collective promises holds each rank's contribution
 *     exactly once (barrier: at least once), and nothing else was added on the way;
 *   - after an all_reduce the ranks hold the same bits: each result was combined in the same
 *     order;
 *   - each message is the chunk that its receiver expects, and no message is left over;
 *   - there is no deadlock over these links, also when pieces follow each other;
 *   - `last` stands on a step exactly when its result is complete;
 *   - in place too, no step overwrites an input before its last use, or memory that a send may
 *     still read (unless a FLUSH stands between);
 *   - scratch is written before it is read;
 *   - in plans of direct access, no two ranks access the same memory, one of them writing, without
 *     a message or signal that orders them, in place or not;
 *   - in plans of direct access, each rank ends after all accesses of others to its memory.
 *
 * The checker assumes that all ranks are in the call when it begins.
 */
#ifndef RD_CHECKER_H
#define RD_CHECKER_H

#include "plan/plan.h"

/* plans[size]. Returns 0, or RONDO_INVALID with a reason: the rank, the step and its fault. */
int rd_check_plans(struct rd_plan *const *plans, int size);

/* Writes the algorithm's plans for every rank and checks them. The layout may be NULL. */
int rd_check_algorithm(const struct rd_algorithm *algorithm, enum rd_collective collective,
	int size, int root, int target, const struct rd_layout *layout);

#endif
