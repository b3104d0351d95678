/*
 * Running calls: the driver of executors. A task is one call; a batch of tasks (one call, or a
 * group) runs side by side in one thread, which spins briefly and then sleeps while nothing can
 * move.
 */
#ifndef RD_RUN_H
#define RD_RUN_H

#include "comm/comm.h"

/*
 * Where a call's memory comes from if it comes part by part: the task is run anew for each, with
 * the same number. next() and take() return an rd_progress or an error, with its reason recorded.
 */
struct rd_feed {
	/* RD_MOVED: the next part is in the call; RD_IDLE: it has not come yet; RD_DONE: nothing is
	   to be run any more. */
	int (*next)(struct rd_feed *feed, struct rd_call *call);
	/* The part has been run: RD_DONE if it was the last. */
	int (*take)(struct rd_feed *feed);
	/* A little time passes while the next part has not come. */
	void (*pause)(struct rd_feed *feed);
};

struct rd_task {
	struct rondo_comm *comm;
	struct rd_call call;
	struct rd_feed *feed; /* NULL: the call is what it is */
	uint64_t turn; /* its place in the comm's order of calls */
	int ordinal; /* its place among the batch's tasks on the same comm */
	int after; /* task of the batch that must be done before this one starts; -1: none */
	bool queued; /* on a stream: later calls may wait for its turn to end */
	bool exchanging; /* its exec exchanges cards (buffer_exchange.h); the call itself comes next */
	bool started, done;
	struct rd_choice *choice;
	bool tried; /* it is one of a trial (single_copy.h), */
	int64_t tried_ns; /* since then */
	int64_t began_ns; /* where calls are timed */
	struct rd_exec *exec; /* once it is started */
};

/* Whether a transfer is this rank's sending side. */
bool rd_task_sends(const struct rd_task *task);

/* Numbers the tasks, in the order in which the user made the calls. In the user's thread. */
void rd_run_issue(struct rd_task *tasks, int count);
/* A call that takes no turn (a device orders it) is numbered, no more. */
void rd_run_name(struct rd_task *task);

/* Runs issued tasks to the end: waits for their turn, then for their links. The first failure ends
   every comm that the batch touches. */
int rd_run(struct rd_task *tasks, int count);

/* Frees what the calls' terms hold, after rd_run() or in its place. */
void rd_run_forget(struct rd_task *tasks, int count);

/*
 * One thread at a time uses a comm: false where another does. Found by a load and a store, for no
 * call is to pay for a lock: two threads that enter within the same few instructions are not found.
 */
static inline bool rd_run_enter(struct rondo_comm *comm)
{
	if (__builtin_expect(atomic_load_explicit(&comm->used, memory_order_relaxed), false))
		return false;
	atomic_store_explicit(&comm->used, true, memory_order_relaxed);
	return true;
}

/* Records the refusal of one that could not enter; returns RONDO_INVALID. */
int rd_run_refuse_second(const struct rondo_comm *comm, const char *function);

static inline void rd_run_exit(struct rondo_comm *comm)
{
	atomic_store_explicit(&comm->used, false, memory_order_relaxed);
}

/* With turn_lock held: until a turn ends, or a moment has passed. */
void rd_run_pause_for_turn(struct rondo_comm *comm);

/* The turn of one issued collective that something else than rd_run() runs: waits for it (or until
   the comm has failed), ends it. */
void rd_run_begin(const struct rd_task *task);
void rd_run_end(const struct rd_task *task);

#endif
