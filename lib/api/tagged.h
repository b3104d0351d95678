/*
 * Requests of tagged messages (comm/messages.h). A thread that starts, tests or cancels one moves
 * all of the comm one step; tagged_driver.h does the rest.
 */
#ifndef RD_TAGGED_H
#define RD_TAGGED_H

#include "api/request_queue.h"
#include "comm/messages.h"

/* As rondo_request_start(), of a request that is not under way. */
int rd_tagged_start(
	struct rondo_request *request, void (*done)(void *argument, int error), void *argument);
/* Moves what can move now. */
void rd_tagged_poll(struct rondo_request *request);
void rd_tagged_cancel(struct rondo_request *request);

#endif
