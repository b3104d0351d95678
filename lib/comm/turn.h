/*
 * Turns: the calls of a comm run one after the other, in the order of issue. Calls of streams wait
 * in the threads of their streams. The usual call, which no other waits for, takes no lock.
 */
#ifndef RD_TURN_H
#define RD_TURN_H

#include "comm/task.h"

/* The queue that a thread works off. */
struct rd_turn_queue {
	/* For calls that its functions make: whether an earlier call of the task's comm is still in
	   the queue, and that call's name and number. */
	bool (*find)(const struct rd_turn_queue *queue, const struct rd_task *task,
		const char **name, uint32_t *number);
	atomic_int waiters; /* threads that wait until it is empty */
};

/* Sets the queue of the calling thread. */
void rd_turn_set_queue(const struct rd_turn_queue *queue);

/* Whether the calling thread works off a queue that no thread waits for. */
bool rd_turn_runs_beside(void);

/* Waits for the task's turn. False: the comm failed before it came. */
bool rd_turn_wait(const struct rd_task *task);

/* Call with turn_lock held: waits until a turn ends, or a moment has passed. */
void rd_turn_pause(struct rondo_comm *comm);

/* Ends a turn that other calls may wait for. Turns are counted: those that a failed comm's calls
   gave up end in any order. */
void rd_turn_pass(struct rondo_comm *comm);

/* Waits for the task's turn. False: the comm has failed, and the task must not be run. */
static inline __attribute__((always_inline)) bool rd_turn_take(const struct rd_task *task)
{
	struct rondo_comm *comm = task->comm;

	if (task->ordinal > 0)
		return true;
	if (atomic_load_explicit(&comm->finished, memory_order_acquire) != task->turn &&
		!rd_turn_wait(task))
		return false;
	comm->ended = 0;
	return true;
}

/* Returns whether no call is queued or runs: the next call's turn has come. */
static inline bool rd_turn_has_come(const struct rondo_comm *comm)
{
	return atomic_load_explicit(&comm->finished, memory_order_acquire) == comm->issued;
}

/* The same, and no thread issues one. */
static inline bool rd_turn_is_free(const struct rondo_comm *comm)
{
	return !atomic_load_explicit(&comm->used, memory_order_relaxed) && rd_turn_has_come(comm);
}

/* Takes the turn of a task that others may wait for: they no longer count the time. Every turn
   begun is ended, by rd_turn_end(task, false). */
static inline void rd_turn_begin(const struct rd_task *task)
{
	if (rd_turn_take(task) && task->ordinal == 0)
		atomic_store(&task->comm->started, task->turn + 1);
}

/* Records the number of a collective that is done. */
static inline void rd_turn_record(struct rondo_comm *comm, uint32_t number)
{
	atomic_store_explicit(&comm->activity.done, number, memory_order_relaxed);
	atomic_store_explicit(comm->watched_done, number, memory_order_relaxed);
}

/* Ends the task's turn. alone: no later call has been issued, so none waits. */
static inline void rd_turn_end(const struct rd_task *task, bool alone)
{
	struct rondo_comm *comm = task->comm;

	if (rd_task_is_collective(task))
		rd_turn_record(comm, task->call.number);
	if (alone)
		atomic_store_explicit(&comm->finished, task->turn + 1, memory_order_release);
	else
		rd_turn_pass(comm);
}

#endif
