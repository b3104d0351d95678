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
 * Enters the comm, which one thread at a time may use; false where another does. A load and a
 * store detect it, since no call should pay for a lock. Two threads that enter within the same few
 * instructions are not detected.
 */
static inline bool rd_run_enter(struct rondo_comm *comm)
{
	if (__builtin_expect(atomic_load_explicit(&comm->used, memory_order_relaxed), false))
		return false;
	atomic_store_explicit(&comm->used, true, memory_order_relaxed);
	return true;
}

/* Records that a second thread could not enter; returns RONDO_INVALID. */
int rd_run_refuse_second(const struct rondo_comm *comm, const char *function);

static inline void rd_run_exit(struct rondo_comm *comm)
{
	atomic_store_explicit(&comm->used, false, memory_order_relaxed);
}

#endif
