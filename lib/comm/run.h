/*
 * Running calls: the driver of executors. A task is one call; a batch of tasks (one call, or a
 * group) runs side by side in one thread, which spins briefly and then sleeps while nothing can
 * move.
 */
#ifndef RD_RUN_H
#define RD_RUN_H

#include "comm/comm.h"

/*
 * The source of a call whose memory comes part by part. The task runs again for each part, with
 * the same number. next() and take() return an rd_progress or an error, with its reason recorded.
 */
struct rd_feed {
	/* RD_MOVED: the next part is in the call; RD_IDLE: it has not come yet; RD_DONE: there
	   are no more parts. */
	int (*next)(struct rd_feed *feed, struct rd_call *call);
	/* Called when the part has run: RD_DONE if it was the last. */
	int (*take)(struct rd_feed *feed);
	/* Pauses briefly while the next part has not come. */
	void (*pause)(struct rd_feed *feed);
};

struct rd_task {
	struct rondo_comm *comm;
	struct rd_call call;
	struct rd_feed *feed; /* NULL: the call has one part */
	uint64_t turn; /* its place in the comm's order of calls */
	int ordinal; /* its place among the batch's tasks on the same comm */
	int after; /* task of the batch that must be done before this one starts; -1: none */
	bool queued; /* on a stream: later calls may wait for its turn to end */
	bool may_exchange; /* a call like it may begin with a buffer exchange (buffer_exchange.h) */
	bool exchanging; /* its exec exchanges cards (buffer_exchange.h); the call itself comes next
			  */
	bool started, done;
	struct rd_choice *choice;
	bool tried; /* it is part of a trial (single_copy.h), */
	int64_t tried_ns; /* which began then */
	int64_t began_ns; /* where calls are timed */
	struct rd_exec *exec; /* once it is started */
};

/* Returns whether a transfer is this rank's sending side. */
bool rd_task_sends(const struct rd_task *task);

/* Numbers the tasks, in the order in which the user made the calls. In the user's thread. */
void rd_run_issue(struct rd_task *tasks, int count);
/* Numbers a call that takes no turn because a device orders it. */
void rd_run_name(struct rd_task *task);

/* Runs issued tasks to the end: waits for their turn, then for their links. The first failure ends
   every comm that the batch touches. */
int rd_run(struct rd_task *tasks, int count);

/* Frees the vcounts and user operations of the calls, after rd_run() or in its place. */
void rd_tasks_finish(struct rd_task *tasks, int count);

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

/* The queue that a thread works off, for calls that its functions make. find(): whether an earlier
   call of the task's comm is still in the queue, and that call's name and number. */
struct rd_run_queue {
	bool (*find)(const struct rd_run_queue *queue, const struct rd_task *task,
		const char **name, uint32_t *number);
};

/* Sets the queue of the calling thread. */
void rd_run_set_queue(const struct rd_run_queue *queue);

/* Call with turn_lock held: waits until a turn ends, or a moment has passed. */
void rd_run_pause_for_turn(struct rondo_comm *comm);

/* The turn of one issued collective that runs outside rd_run(). begin waits for it (or until the
   comm has failed), end ends it. */
void rd_run_begin(const struct rd_task *task);
void rd_run_end(const struct rd_task *task);

#endif
