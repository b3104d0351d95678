#include "api/tagged_driver.h"

#include <stdlib.h>

#include "base/error.h"
#include "device/device.h"

/* ---- Requests ------------------------------------------------------------------------------- */

int rd_tagged_start(
	struct rondo_request *request, void (*done)(void *argument, int error), void *argument)
{
	struct rd_tagged_driver *driver = rd_tagged_driver_of(request);
	struct rd_mailbox *mailbox = driver->mailbox;
	bool opens;
	int err;

	if (atomic_load(&request->comm->failed))
		return rd_comm_failure(request->comm);
	rd_mailbox_enter(driver->mailbox);
	err = driver->stops ? rd_fail(RONDO_LEFT, "rank %d left it", request->comm->rank)
			    : rd_messages_post(mailbox, request->tagged);
	if (err) {
		rd_mailbox_exit(driver->mailbox);
		return err;
	}
	request->done = done;
	request->argument = argument;
	request->error = 0;
	free(request->reason);
	request->reason = NULL;
	request->tagged->owner = request;
	atomic_store(&request->state, RD_REQUEST_QUEUED);
	opens = mailbox->unready;
	/* From here on the request may be gone. */
	rd_messages_step(mailbox);
	rd_tagged_settle(driver);
	/* The sleeper's epoll may not have a new link. */
	if (mailbox->sleeps && (opens || mailbox->unready))
		rd_mailbox_wake(mailbox);
	rd_tagged_exit_to_worker(driver);
	return 0;
}

void rd_tagged_poll(struct rondo_request *request)
{
	struct rd_tagged_driver *driver = rd_tagged_driver_of(request);

	if (pthread_mutex_trylock(&driver->mailbox->lock))
		return;
	if (!driver->drives) {
		rd_messages_step(driver->mailbox);
		rd_tagged_settle(driver);
	}
	rd_mailbox_exit(driver->mailbox);
}

void rd_tagged_cancel(struct rondo_request *request)
{
	struct rd_tagged_driver *driver = rd_tagged_driver_of(request);

	rd_mailbox_enter(driver->mailbox);
	rd_messages_cancel(driver->mailbox, request->tagged);
	rd_tagged_settle(driver);
	rd_mailbox_exit(driver->mailbox);
}

/* ---- Preparing ------------------------------------------------------------------------------ */

static int make_mailbox(struct rondo_comm *comm)
{
	struct rd_mailbox *mailbox = rd_mailbox_get(comm);
	int err = 0;

	if (!mailbox)
		return RONDO_MEMORY;
	/* The mailbox's lock comes after that of the workers. */
	pthread_mutex_lock(&comm->turn_lock);
	if (!mailbox->driver)
		err = rd_tagged_driver_create(mailbox);
	pthread_mutex_unlock(&comm->turn_lock);
	return err;
}

static int check(const rondo_comm *comm, const struct rd_tagged *message, const char *function)
{
	struct rd_allocation allocation;
	bool any = message->receives && message->peer == RONDO_ANY_SOURCE;
	int err = comm ? rd_comm_check_process(comm, function)
		       : rd_fail(RONDO_INVALID, "%s: comm is NULL", function);

	if (err)
		return err;
	if (comm->finalized)
		return rd_comm_failure((struct rondo_comm *)comm);
	if (!any && (message->peer < 0 || message->peer >= comm->size))
		return rd_fail(RONDO_INVALID, "%s: there is no rank %d of %d", function,
			message->peer, comm->size);
	if (!message->data && message->size > 0)
		return rd_fail(RONDO_INVALID, "%s: the buffer is NULL", function);
	if (message->size > 0 && (comm->gpu || comm->meets_devices) &&
		rd_is_device_memory(message->data, &allocation))
		return rd_fail(RONDO_UNSUPPORTED,
			"%s: the buffer is device memory: copy it to host memory, or use "
			"rondo_send() and rondo_recv()",
			function);
	return 0;
}

static int check_way(struct rondo_comm *comm, int peer, const char *function)
{
	if (peer == RONDO_ANY_SOURCE || peer == comm->rank || !comm->control ||
		rd_mailbox_reaches(atomic_load(&comm->mailbox), peer))
		return 0;
	return rd_fail(RONDO_UNSUPPORTED,
		"%s: rank %d reaches rank %d over neither shm nor tcp: allow one in "
		"RONDO_TRANSPORT",
		function, comm->rank, peer);
}

static int prepare(rondo_comm *comm, const struct rd_tagged *message, const char *function,
	rondo_request **made)
{
	struct rondo_request *request;
	int err;

	if (!made)
		return rd_fail(RONDO_INVALID, "%s: request is NULL", function);
	*made = NULL;
	err = check(comm, message, function);
	if (!err)
		err = make_mailbox(comm);
	if (!err)
		err = check_way(comm, message->peer, function);
	if (err)
		return err;
	request = calloc(1, sizeof(*request));
	if (request)
		request->tagged = malloc(sizeof(*request->tagged));
	if (!request || !request->tagged) {
		free(request);
		return rd_fail(RONDO_MEMORY, "%s: no memory for a request", function);
	}
	*request->tagged = *message;
	request->comm = comm;
	request->forks = rd_process.forks;
	*made = request;
	return 0;
}

int rondo_send_tagged(
	rondo_comm *comm, const void *send, size_t size, int peer, int tag, rondo_request **request)
{
	struct rd_tagged message = {
		.peer = peer, .tag = tag, .data = (char *)(uintptr_t)send, .size = size
	};

	return prepare(comm, &message, "rondo_send_tagged", request);
}

int rondo_recv_tagged(
	rondo_comm *comm, void *recv, size_t size, int peer, int tag, rondo_request **request)
{
	struct rd_tagged message = {
		.receives = true, .peer = peer, .tag = tag, .data = recv, .size = size
	};

	return prepare(comm, &message, "rondo_recv_tagged", request);
}
