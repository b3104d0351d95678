/*
 * Running calls: the driver of executors. It starts the tasks of a batch, steps them side by side
 * in one thread, and waits while nothing can move.
 */
#ifndef RD_RUN_H
#define RD_RUN_H

#include "comm/task.h"
#include "comm/turn.h"

/* Runs issued tasks to the end: waits for their turn, then for their links. The first failure ends
   every comm that the batch touches. */
int rd_run(struct rd_task *tasks, int count);

/*
 * Makes the last call of a collective once more, with the same buffers: straight to the links, and
 * as a task only where it must wait. brief: the collective's in comm->shorts, whose last call may
 * start at once (plan_cache.h). No call is under way. The caller has entered the comm, which this
 * leaves. called_at: the return address of the public function. Returns as rd_run().
 */
int rd_run_again(struct rondo_comm *comm, struct rd_short *brief, uintptr_t called_at);

/* Checks a call that a device runs, if a check is due (call_check.h): waits until all ranks make
   it. Call it before the call is issued. Returns 0 or an error. */
int rd_check_now(const struct rd_task *task);

#endif
