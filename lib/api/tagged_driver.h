/*
 * Requests of tagged messages (comm/messages.h), and what drives the mailbox of a comm for them:
 * one thread at a time, which waits for a message, else a worker (background.h).
 */
#ifndef RD_TAGGED_DRIVER_H
#define RD_TAGGED_DRIVER_H

#include "api/request_queue.h"
#include "comm/messages.h"

struct rd_tagged_driver {
	struct rd_background work;
	struct rd_mailbox *mailbox;
	/* The lock of `changes` alone: a thread that is woken has yet to come to the lock of the
	   mailbox, and counts there. */
	pthread_mutex_t change_lock;
	pthread_cond_t change;
	unsigned changes; /* a request is done, or nobody drives; where a thread waits for it */
	/* Under the mailbox's lock: */
	int asleep; /* threads that wait for a change */
	bool drives; /* a thread drives */
	bool works; /* it is the worker */
	bool stops; /* this rank leaves the comm */
	int waiters, calling; /* threads that wait; that call done() */
	int64_t spin_ns; /* how long to spin before a sleep */
	unsigned sleeps; /* after a spin */
	unsigned waits, seen; /* so far; those that a worker has seen */
	bool posted; /* a worker looks at it */
	int looks; /* of the worker, in a row, while nothing was under way */
};

/* The mailbox has one afterwards, or there is no memory for it. */
int rd_tagged_driver_create(struct rd_mailbox *mailbox);

static inline struct rd_tagged_driver *rd_tagged_driver_of(const struct rondo_request *request)
{
	return atomic_load(&request->comm->mailbox)->driver;
}

/* ---- tagged.c: a thread that starts, tests or cancels a request moves all of the comm one step */

/* As rondo_request_start(), of a request that is not under way. */
int rd_tagged_start(
	struct rondo_request *request, void (*done)(void *argument, int error), void *argument);
/* Moves what can move now. */
void rd_tagged_poll(struct rondo_request *request);
void rd_tagged_cancel(struct rondo_request *request);

/* ---- Under the mailbox's lock -------------------------------------------------------------- */

/* Ends the requests whose messages have ended. */
void rd_tagged_settle(struct rd_tagged_driver *driver);
/* Gives up the lock, and has a worker look where something is under way. */
void rd_tagged_exit_to_worker(struct rd_tagged_driver *driver);

/* ---- Without it ---------------------------------------------------------------------------- */

/* As rd_request_queue_wait(). */
bool rd_tagged_wait(struct rondo_request *request, int timeout_ms);

/* This rank leaves the comm: ends the messages that are under way. Then none may be started. */
void rd_tagged_finish(struct rondo_comm *comm);

#endif
