/*
 * Tasks: a task is one call under way. Tasks that run side by side in one thread are a batch: one
 * call, or a group of calls. task.c numbers them and puts them in order.
 */
#ifndef RD_TASK_H
#define RD_TASK_H

#include "comm/comm.h"
#include "plan/peer_set.h"

/*
 * The source of a call whose memory comes part by part. The task runs again for each part, with
 * the same number. All callbacks run in the thread of rd_run(). next() and take() return an
 * rd_progress, or an error with its reason recorded.
 */
struct rd_feed {
	/* Returns RD_MOVED if the next part is in the call, RD_IDLE if it has not come yet, RD_DONE
	   if there are no more parts. */
	int (*next)(struct rd_feed *feed, struct rd_call *call);
	/* Called when the part has run; returns RD_DONE if it was the last. */
	int (*take)(struct rd_feed *feed);
	/* Pauses briefly; called while the next part has not come. */
	void (*pause)(struct rd_feed *feed);
};

/* The work of a task's exec. */
enum rd_task_stage {
	RD_RUNS, /* the call */
	RD_RUNS_MISFIT, /* the same, and some rank finds a misfit (call_check.h) */
	RD_CHECKS, /* the check before it */
	RD_EXCHANGES, /* the exchange of buffers before it (buffer_exchange.h) */
};

struct rd_task {
	struct rondo_comm *comm;
	struct rd_call call; /* freed by rd_tasks_finish() */
	uintptr_t called_at; /* its site (call_site.h); 0: a call of our own */
	struct rd_feed *feed; /* the source of the call's parts; NULL: the call has one part */
	int timeout_ms; /* bound on its waits */
	uint64_t turn; /* its index in the comm's order of calls */
	int ordinal; /* its index among the batch's tasks on the same comm */
	int after; /* index of the task that must be done before this one starts; -1: none */
	/* The lists of batch.h; -1: their end. */
	int next, next_comm; /* in the list that it is in; in that of first tasks */
	int followers; /* the first of those after it */
	bool queued; /* on a stream: later calls may wait for its turn to end */
	bool exchange_pays; /* as rd_buffer_exchange_pays() returned */
	bool checked; /* no check comes before it (call_check.h) */
	bool only_checks; /* it is the check of a call that the device runs */
	enum rd_task_stage stage; /* of its exec; set when the task starts */
	bool started;
	/* Peers whose links the stage needs and that are not all open yet; NULL: they are. */
	const struct rd_peer_set *opens;
	bool holds; /* in a batch of several, the first of its comm: it has the links (hold.h) */
	struct rd_choice *choice; /* of the picker; set when the task starts */
	bool tried; /* the call is part of a trial (single_copy.h) */
	int64_t tried_ns; /* when that call of the trial began */
	int64_t began_ns; /* when the call began, if the comm times calls */
	/* Set when the task starts. Before that: where an equal call ran, which is tried first;
	   NULL: not known. */
	struct rd_exec *exec;
	struct rd_widened *widened; /* the call runs on f32 (widen.h); NULL: as it was made */
};

static inline bool rd_task_is_collective(const struct rd_task *task)
{
	return task->call.problem.collective != RD_TRANSFER;
}

/* Returns whether a transfer is this rank's sending side. */
static inline bool rd_task_sends(const struct rd_task *task)
{
	return !rd_task_is_collective(task) && task->call.problem.root == task->comm->rank;
}

/* Returns whether a task may start that `after` no longer holds back. A collective runs alone on
   its comm; transfers run side by side with other transfers. */
static inline bool rd_task_may_start(const struct rd_task *task)
{
	return !rd_task_is_collective(task) || task->comm->ended == task->ordinal;
}

/* Numbers the tasks, in the order in which the user made the calls. In the user's thread. */
void rd_tasks_issue(struct rd_task *tasks, int count);
/* Numbers a call that takes no turn because a device orders it. */
void rd_task_number(struct rd_task *task);

/* A collective call as a word, for the digest of all calls. */
uint64_t rd_task_digest(const struct rd_call *call);

/* Numbers a collective call, which the control thread sees from then on. Returns the number. */
static inline uint32_t rd_task_number_collective(struct rondo_comm *comm,
	enum rd_collective collective, uint64_t digest, uintptr_t called_at)
{
	struct rd_activity *activity = &comm->activity;
	uint32_t number = ++comm->calls;

	/* Two ranks whose digests differ made different calls, whatever their links noticed. */
	activity->digest = (activity->digest ^ digest) * UINT64_C(0x100000001b3);
	atomic_store_explicit(&activity->collective, collective, memory_order_relaxed);
	atomic_store_explicit(&activity->called_at, called_at, memory_order_relaxed);
	atomic_store_explicit(&activity->calls, number, memory_order_release);
	return number;
}

/* Frees the vcounts and user operations of the calls, after rd_run() or in its place. */
void rd_tasks_finish(struct rd_task *tasks, int count);

#endif
