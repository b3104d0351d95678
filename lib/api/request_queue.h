/*
 * The started requests of a comm, in the order of their starts. A thread that waits for one runs it
 * itself, and those before it: a call that changes threads waits for a wake-up. A worker runs those
 * for which no thread waits. One thread at a time runs them; while one is in a done(), others may.
 */
#ifndef RD_REQUEST_QUEUE_H
#define RD_REQUEST_QUEUE_H

#include "comm/run.h"
#include "api/background.h"

/* Dropped: destroyed while under way, and so until its end. */
enum rd_request_state { RD_REQUEST_DONE, RD_REQUEST_QUEUED, RD_REQUEST_RUNS, RD_REQUEST_DROPPED };

struct rondo_request {
	struct rondo_comm *comm;
	struct rd_tagged *tagged; /* a tagged message (tagged_driver.h); NULL: calls */
	struct rd_request_queue *queue; /* of its comm; set by each start */
	struct rondo_request *next; /* in the queue */
	_Atomic int state; /* an rd_request_state */
	bool seen; /* by a worker that left it to a thread that may wait; by one that polls */
	unsigned forks; /* rd_process.forks in the process that made it */
	void (*done)(void *argument, int error);
	void *argument;
	/* The result of the last start, once it is done: */
	int error;
	char *reason; /* NULL: none, or no memory for it */
	int count;
	struct rd_task *tasks; /* [count] as they were made, for the next start */
	struct rd_task *runs; /* [count] as they run */
};

static inline bool rd_request_is_done(const struct rondo_request *request)
{
	return atomic_load_explicit(&request->state, memory_order_acquire) == RD_REQUEST_DONE;
}

/* request.c. Makes a request of calls on one comm. On success takes over what they have; the array
   stays the caller's. */
int rd_request_create(struct rondo_request **request, const struct rd_task *tasks, int count);
/* Frees it and what it has of its calls. */
void rd_request_free(struct rondo_request *request);

/*
 * A request is freed once it has ended and is dropped: by the thread that comes second. Neither
 * looks at the comm, which another thread may destroy once its requests have ended.
 */
static inline void rd_request_end(struct rondo_request *request)
{
	if (atomic_exchange(&request->state, RD_REQUEST_DONE) == RD_REQUEST_DROPPED)
		rd_request_free(request);
}
static inline void rd_request_drop(struct rondo_request *request)
{
	if (atomic_exchange(&request->state, RD_REQUEST_DROPPED) == RD_REQUEST_DONE)
		rd_request_free(request);
}

/* Once for a comm, by the thread that uses it: the functions of its messages may start calls at any
   time. */
int rd_request_queue_create(struct rondo_comm *comm);
/* Issues the request's calls on its comm, and queues it. Returns 0, or an error: nothing was
   issued. */
int rd_request_queue_add(struct rondo_request *request);
/* Waits for the end of a request: at most timeout_ms, which is no bound where it is negative.
   Returns whether it is done. */
bool rd_request_queue_wait(struct rondo_request *request, int timeout_ms);
/* Calls its done(), which is not NULL, with its error and the reason. */
void rd_request_call_done(struct rondo_request *request);
/* Whether the calling thread is in its done(), if only in that of a message for which that waits;
   for a message, in that of any message of its comm: a thread in one moves no other message. */
bool rd_request_ends_here(const struct rondo_request *request);
/* A thread polls the request: a worker runs it, if none does. */
void rd_request_queue_poll(struct rondo_request *request);

/* Runs what is queued on the comm, and waits for what runs and each done(). */
void rd_request_queue_drain(struct rondo_comm *comm);
/* Frees the comm's queue, which is empty. */
void rd_request_queue_finish(struct rondo_comm *comm);

#endif
