#include "api/request_queue.h"

#include <stdlib.h>
#include <string.h>

#include "api/group.h"
#include "api/tagged_driver.h"
#include "base/error.h"

int rd_request_create(rondo_request **made, const struct rd_task *tasks, int count)
{
	struct rondo_comm *comm = tasks[0].comm;
	struct rondo_request *request;
	size_t size = count * sizeof(*tasks);

	if (!comm->requests && rd_request_queue_create(comm))
		return RONDO_MEMORY;
	request = calloc(1, sizeof(*request));
	if (request) {
		request->tasks = malloc(size);
		request->runs = malloc(size);
	}
	if (!request || !request->tasks || !request->runs) {
		if (request) {
			free(request->tasks);
			free(request->runs);
		}
		free(request);
		return rd_fail(RONDO_MEMORY, "no memory for a request of %d calls", count);
	}
	memcpy(request->tasks, tasks, size);
	request->count = count;
	request->comm = comm;
	request->forks = rd_process.forks;
	*made = request;
	return 0;
}

static int check(const rondo_request *request, const char *function)
{
	if (!request)
		return rd_fail(RONDO_INVALID, "%s: request is NULL", function);
	return rd_is_inherited(request->forks) ? rd_refuse_inherited(function, "request") : 0;
}

/* The request is done. */
static int result(const rondo_request *request)
{
	if (!request->error)
		return 0;
	return rd_fail(request->error, "%s",
		request->reason ? request->reason : rondo_error_text(request->error));
}

int rondo_request_start(
	rondo_request *request, void (*done)(void *argument, int error), void *argument)
{
	int err = check(request, "rondo_request_start");

	if (err)
		return err;

	struct rondo_comm *comm = request->comm;

	if (rd_group_open())
		return rd_fail(RONDO_INVALID, "rondo_request_start: end the group first");
	if (!rd_request_is_done(request))
		return rd_fail(RONDO_INVALID,
			"rondo_request_start: the request is under way: wait for it first");
	if (comm->finalized)
		return rd_comm_failure(comm);
	if (request->tagged)
		return rd_tagged_start(request, done, argument);
	request->done = done;
	request->argument = argument;
	return rd_request_queue_add(request);
}

int rondo_request_test(rondo_request *request)
{
	int err = check(request, "rondo_request_test");

	if (err)
		return err;
	if (!rd_request_is_done(request) && request->tagged)
		rd_tagged_poll(request);
	if (rd_request_is_done(request))
		return result(request);
	if (!request->tagged)
		rd_request_queue_poll(request);
	return RONDO_PENDING;
}

int rondo_request_wait(rondo_request *request, int timeout_ms)
{
	int err = check(request, "rondo_request_wait");

	if (err)
		return err;
	if (!rd_request_is_done(request) && rd_request_ends_here(request))
		return rd_fail(RONDO_INVALID,
			"rondo_request_wait: the function at %s end cannot wait for %s",
			request->tagged ? "a message's" : "the request's",
			request->tagged ? "a message of its comm" : "that end");
	if (!rd_request_is_done(request) &&
		!(request->tagged ? rd_tagged_wait : rd_request_queue_wait)(request, timeout_ms))
		return RONDO_PENDING;
	return result(request);
}

void rondo_request_destroy(rondo_request *request)
{
	if (request && rd_is_inherited(request->forks))
		rd_request_free(request);
	else if (request)
		rd_request_drop(request);
}

int rondo_request_cancel(rondo_request *request)
{
	int err = check(request, "rondo_request_cancel");

	if (err)
		return err;
	if (!request->tagged || !request->tagged->receives)
		return rd_fail(RONDO_INVALID, "rondo_request_cancel: the request is no receive");
	if (!rd_request_is_done(request))
		rd_tagged_cancel(request);
	return 0;
}

int rondo_request_source(rondo_request *request, int *rank, size_t *size)
{
	int err = check(request, "rondo_request_source");

	if (err)
		return err;
	if (!request->tagged)
		return rd_fail(RONDO_INVALID, "rondo_request_source: the request is no message");
	if (!rd_request_is_done(request))
		return RONDO_PENDING;
	if (!request->tagged->owner)
		return rd_fail(RONDO_INVALID, "rondo_request_source: start the request first");
	if (request->error)
		return result(request);
	if (rank)
		*rank = request->tagged->source;
	if (size)
		*size = request->tagged->length;
	return 0;
}
