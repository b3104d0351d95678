#include "comm/comm.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/error.h"
#include "base/log.h"

_Static_assert(offsetof(struct rondo_comm, activity.called_at) + sizeof(uintptr_t) <=
		       (size_t)2 * RD_CACHE_LINE,
	"what each call needs is two lines of the cache");

/* ---- Sleeping ------------------------------------------------------------------------------ */

/* With no epoll to sleep on, links are looked at every millisecond. */
#define BLIND_MS 1

int rd_comm_make_epoll(struct rondo_comm *comm)
{
	if (comm->epoll_fd < 0)
		comm->epoll_fd = comm->local.epoll_fd = rd_shared_borrow(comm->shared);
	return comm->epoll_fd < 0 ? rd_fail_errno("cannot make an epoll") : 0;
}

void rd_comm_borrow(struct rondo_comm *comm)
{
	if (comm->epoll_fd < 0)
		comm->borrowed_fd = rd_shared_borrow(comm->shared);
}

void rd_comm_give_back(struct rondo_comm *comm)
{
	if (comm->borrowed_fd >= 0)
		rd_shared_give_back(comm->shared, comm->borrowed_fd);
	comm->borrowed_fd = -1;
}

void rd_comm_sleep(const struct rondo_comm *comm, int timeout_ms)
{
	struct epoll_event events[16];
	int fd = rd_comm_epoll(comm);

	/* All is edge-triggered, and the caller checks all links again: events do not matter. */
	if (fd >= 0)
		epoll_wait(fd, events, 16, timeout_ms);
	else if (timeout_ms > 0)
		poll(NULL, 0, BLIND_MS);
}

void rd_comm_arm(struct rondo_comm *comm)
{
	for (int i = 0; i < comm->endpoint_count; i++)
		if (comm->endpoints[i]->transport->arm)
			comm->endpoints[i]->transport->arm(comm->endpoints[i]);
}

void rd_comm_disarm(struct rondo_comm *comm)
{
	for (int i = 0; i < comm->endpoint_count; i++)
		if (comm->endpoints[i]->transport->disarm)
			comm->endpoints[i]->transport->disarm(comm->endpoints[i]);
}

bool rd_comm_advance(struct rondo_comm *comm)
{
	bool moved = false;

	for (int i = 0; i < comm->endpoint_count; i++)
		moved |= comm->endpoints[i]->transport->advance(comm->endpoints[i]);
	return moved;
}

/* ---- Failing ------------------------------------------------------------------------------- */

int rd_comm_fail(struct rondo_comm *comm, int error, int culprit)
{
	char reason[RD_REASON_SIZE];

	if (!comm->control) {
		atomic_store(&comm->failed, error);
		return error;
	}
	strncpy(reason, rondo_last_error(), sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = '\0';
	rd_log(RD_INFO, RD_COLL, "reports: %s", reason);

	int verdict = rd_control_report(comm->control, error, culprit, reason);

	atomic_store(&comm->failed, verdict);
	return verdict;
}

void rd_comm_slow(
	struct rondo_comm *comm, int *reported_ms, int64_t waited_ms, int culprit, const char *what)
{
	int64_t every_ms = comm->settings.heartbeat_timeout_ms;
	int64_t line_ms = RD_SLOW_MS < every_ms ? RD_SLOW_MS : every_ms, due_ms;
	char reason[RD_REASON_SIZE], peer[32] = "others";

	while (line_ms <= *reported_ms)
		line_ms *= 2;
	due_ms = *reported_ms == 0 ? line_ms : (*reported_ms / every_ms + 1) * every_ms;
	if ((waited_ms < due_ms && waited_ms < line_ms) || !comm->control)
		return;
	if (culprit >= 0)
		snprintf(peer, sizeof(peer), "rank %d", culprit);
	snprintf(reason, sizeof(reason), "rank %d has waited %lld ms for %s %s", comm->rank,
		(long long)waited_ms, peer, what);
	rd_control_slow(comm->control, waited_ms >= line_ms ? waited_ms : 0, culprit, reason);
	*reported_ms = (int)waited_ms;
}

int rd_comm_failure(struct rondo_comm *comm)
{
	int verdict = comm->control ? rd_control_verdict(comm->control) : 0;
	int failed = atomic_load(&comm->failed);

	if (verdict || !failed)
		return verdict;
	if (comm->finalized)
		return rd_fail(failed,
			"rank %d: the communicator was finalized: it can only be destroyed",
			comm->rank);
	/* Alone, or cut off before the verdict. */
	return rd_fail(failed, "rank %d: the communicator has failed: %s", comm->rank,
		rondo_error_text(failed));
}

int rd_comm_refuse_second(const struct rondo_comm *comm, const char *function)
{
	int collective = atomic_load(&comm->activity.collective);

	return rd_fail(RONDO_INVALID,
		"%s: rank %d is in another call on this communicator (its latest collective: %s "
		"#%u): one thread at a time may call, and no operation of the program's",
		function, comm->rank, collective < 0 ? "none," : rd_collective_name(collective),
		atomic_load(&comm->activity.calls));
}
