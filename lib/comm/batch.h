/* The failure of a batch: one task fails, and with it every comm that the batch uses. */
#ifndef RD_BATCH_H
#define RD_BATCH_H

#include "comm/task.h"

/* Returns the peer that the task waits for; -1: none. */
static inline int rd_task_waiting_for(const struct rd_task *task)
{
	return task->started ? task->exec->waiting_for : -1;
}

/* Ends all comms of a batch, one of whose tasks failed with an error that is recorded. Returns the
   error that all ranks agree on. */
int rd_batch_fail(struct rd_task *tasks, int count, struct rd_task *failed, int error);

/* The same where that comm has failed already. */
int rd_batch_fail_with(struct rd_task *tasks, int count, const struct rd_task *failed);

/* Returns the error of a comm that has failed, after ending the batch's others; else 0. */
static inline int rd_batch_check(struct rd_task *tasks, int count)
{
	for (int i = 0; i < count; i++)
		if (atomic_load_explicit(&tasks[i].comm->failed, memory_order_acquire))
			return rd_batch_fail_with(tasks, count, &tasks[i]);
	return 0;
}

#endif
