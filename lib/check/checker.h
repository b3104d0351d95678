/*
 * The checker: proves a set of plans right, symbolically, with no I/O, for one collective on `size`
 * ranks, by running them over links that hold two messages in each direction (rondo/transport.h):
 * one at the sender, in the memory it came from, and one at the receiver.
 *
 * What it proves, of the finished plans (the very steps that the executors run):
 *   - at the end each output chunk that the collective promises holds each rank's contribution
 *     exactly once (barrier: at least once), and nothing else was added on the way;
 *   - after an all_reduce the ranks hold the same bits: each result was combined in the same order;
 *   - each message is the chunk that its receiver expects, and no message is left over;
 *   - no deadlock over such links, also when pieces follow each other;
 *   - `last` stands on a step exactly when its result is complete;
 *   - in place too: no input is overwritten before its last use, no memory while a send may still
 *     read it (unless a FLUSH stands between);
 *   - scratch is written before it is read;
 *   - of plans of direct access: no two ranks meet at the same memory, one of them writing, without
 *     a message or signal that orders them, in place or not; and each rank ends after all that
 *     others do to its memory. That all ranks are in the call when it begins, it takes for given.
 */
#ifndef RD_CHECKER_H
#define RD_CHECKER_H

#include "plan/plan.h"

/* plans[size]. 0, or RONDO_INVALID with a reason: rank, step and what is wrong with it. */
int rd_check_plans(struct rd_plan *const *plans, int size);

/* Writes the algorithm's plans for every rank and checks them. The layout may be NULL. */
int rd_check_algorithm(const struct rd_algorithm *algorithm, enum rd_collective collective,
	int size, int root, int target, const struct rd_layout *layout);

#endif
