/*
 * Batches: tasks that one thread runs side by side. A batch keeps its live tasks in a list: those
 * that run, and those that `after` no longer holds back. A round of steps visits these alone, so
 * that its cost does not grow with the calls of a group that wait for their predecessors.
 *
 * One task fails, and with it every comm that the batch uses.
 */
#ifndef RD_BATCH_H
#define RD_BATCH_H

#include "comm/opening.h"
#include "comm/task.h"

/* Indices in tasks; -1: none. */
struct rd_batch {
	struct rd_task *tasks;
	int live; /* the first live task (rd_task.next); -1: all are done */
	int comms; /* the first task of the first comm (rd_task.next_comm) */
};

/* The tasks have been ordered by rd_tasks_issue(). */
static inline void rd_batch_init(struct rd_batch *batch, struct rd_task *tasks, int count)
{
	*batch = (struct rd_batch){ tasks, -1, -1 };
	/* As most calls are. */
	if (count == 1) {
		tasks->followers = tasks->next = tasks->next_comm = -1;
		batch->live = batch->comms = 0;
		return;
	}
	for (int i = 0; i < count; i++)
		tasks[i].followers = -1;
	for (int i = count - 1; i >= 0; i--) {
		int after = tasks[i].after;
		int *list = after < 0 ? &batch->live : &tasks[after].followers;

		tasks[i].next = *list;
		*list = i;
		if (tasks[i].ordinal > 0)
			continue;
		tasks[i].next_comm = batch->comms;
		batch->comms = i;
	}
}

/* Iterates over the live tasks; over the first task of each comm. */
#define RD_BATCH_LIVE(batch, task) \
	for (struct rd_task *task = rd_batch_at(batch, (batch)->live); task; \
		task = rd_batch_at(batch, task->next))
#define RD_BATCH_COMMS(batch, task) \
	for (struct rd_task *task = rd_batch_at(batch, (batch)->comms); task; \
		task = rd_batch_at(batch, task->next_comm))

static inline struct rd_task *rd_batch_at(const struct rd_batch *batch, int index)
{
	return index < 0 ? NULL : &batch->tasks[index];
}

/* Returns the peer that the task waits for; -1: none. */
static inline int rd_task_waiting_for(const struct rd_task *task)
{
	if (task->opens)
		return rd_open_awaited(task->comm, task->opens);
	return task->started ? task->exec->waiting_for : -1;
}

/* Ends all comms of a batch, one of whose tasks failed with an error that is recorded. Returns the
   error that all ranks agree on. */
int rd_batch_fail(const struct rd_batch *batch, const struct rd_task *failed, int error);

/* The same where that comm has failed already. */
int rd_batch_fail_with(const struct rd_batch *batch, const struct rd_task *failed);

/* Returns the error of a comm that has failed, after ending the batch's others; else 0. */
static inline int rd_batch_check(const struct rd_batch *batch)
{
	RD_BATCH_COMMS (batch, task)
		if (atomic_load_explicit(&task->comm->failed, memory_order_acquire))
			return rd_batch_fail_with(batch, task);
	return 0;
}

/* The task at *at of the live list is done: its followers take its place. */
static inline void rd_batch_end(const struct rd_batch *batch, int *at)
{
	const struct rd_task *task = &batch->tasks[*at];

	*at = task->followers;
	while (*at >= 0)
		at = &batch->tasks[*at].next;
	*at = task->next;
}

/*
 * Steps each live task once, and tasks that become live meanwhile. step() returns an rd_progress,
 * or an error with its reason recorded. Returns RD_MOVED if any task moved, RD_IDLE if none could,
 * or the error all ranks agree on.
 */
static inline int rd_batch_step(struct rd_batch *batch, int (*step)(struct rd_task *task))
{
	int any = RD_IDLE;

	for (int *at = &batch->live; *at >= 0;) {
		struct rd_task *task = &batch->tasks[*at];
		int moved = step(task);

		if (moved < 0)
			return rd_batch_fail(batch, task, moved);
		if (moved != RD_IDLE)
			any = RD_MOVED;
		if (moved == RD_DONE)
			rd_batch_end(batch, at);
		else
			at = &task->next;
	}
	return any;
}

#endif
