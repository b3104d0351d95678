/*
 * Requests of tagged messages (comm/messages.h). One thread at a time drives the mailbox of a comm:
 * a thread that waits for a message, else a worker. Any other that starts, tests or cancels moves
 * it one step.
 */
#ifndef RD_TAGGED_H
#define RD_TAGGED_H

#include "api/request_queue.h"
#include "comm/messages.h"

/* As rondo_request_start(), of a request that is not under way. */
int rd_tagged_start(
	struct rondo_request *request, void (*done)(void *argument, int error), void *argument);
/* As rd_request_queue_wait(). */
bool rd_tagged_wait(struct rondo_request *request, int timeout_ms);
/* Moves what can move now. */
void rd_tagged_poll(struct rondo_request *request);
void rd_tagged_cancel(struct rondo_request *request);
/* Frees the request: now, or at its end. */
void rd_tagged_drop(struct rondo_request *request);

/* This rank leaves the comm: ends the messages that are under way. Then none may be started. */
void rd_tagged_finish(struct rondo_comm *comm);

#endif
