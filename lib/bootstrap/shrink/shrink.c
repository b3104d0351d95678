#include "bootstrap/shrink/shrink.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/shrink/guest.h"
#include "bootstrap/shrink/host.h"
#include "bootstrap/shrink/state.h"
#include "bootstrap/shrink/vote.h"
#include "bootstrap/shrink/watch.h"

/* ---- Life ---------------------------------------------------------------------------------- */

static int allocate(struct rd_shrink *shrink)
{
	size_t size = (size_t)shrink->size;

	shrink->visit_count = shrink->size + RD_PENDING_MAX;
	shrink->fates = calloc(size, sizeof(*shrink->fates));
	shrink->visits = calloc((size_t)shrink->visit_count, sizeof(*shrink->visits));
	shrink->visit_of = calloc(size, sizeof(*shrink->visit_of));
	shrink->rings = calloc(size, sizeof(*shrink->rings));
	if (!shrink->fates || !shrink->visits || !shrink->visit_of || !shrink->rings)
		return rd_fail(
			RONDO_MEMORY, "no memory to shrink a comm of %d ranks", shrink->size);
	for (int rank = 0; rank < shrink->size; rank++) {
		static const enum rd_fate fates[] = { [RD_PRESENT] = RD_FATE_EXPECTED,
			[RD_CUT_OFF] = RD_FATE_EXPECTED,
			[RD_LOST] = RD_FATE_LOST,
			[RD_DEAD] = RD_FATE_ACCUSED };

		shrink->visit_of[rank] = shrink->rings[rank].fd = -1;
		shrink->fates[rank] = fates[rd_control_presence(shrink->control, rank)];
	}
	return 0;
}

static int start(struct rd_shrink *shrink)
{
	int err = allocate(shrink);

	if (err)
		return err;
	if (shrink->lineage->listen_fd < 0)
		return rd_fail(RONDO_INVALID,
			"rank %d: the communicator was shrunk before: shrink what it became",
			shrink->rank);
	if (shrink->fates[shrink->rank] != RD_FATE_EXPECTED)
		return rd_fail(RONDO_TIMEOUT,
			"rank %d was lost to the others, which go on without it", shrink->rank);
	shrink->epoll_fd = rd_above_stderr(epoll_create1(EPOLL_CLOEXEC));
	return shrink->epoll_fd >= 0 ? 0 : rd_fail_errno("cannot make an epoll");
}

int rd_shrink_create(struct rd_shrink **made, const struct rd_settings *settings,
	struct rd_control *control, struct rd_vote *vote, int timeout_ms)
{
	struct rd_shrink *shrink = calloc(1, sizeof(*shrink));
	int err;

	*made = NULL;
	if (!shrink)
		return rd_fail(RONDO_MEMORY, "no memory to shrink a comm");
	shrink->settings = settings;
	shrink->control = control;
	shrink->vote = vote;
	shrink->lineage = rd_control_lineage(control);
	shrink->members = rd_control_members(control);
	shrink->rank = settings->rank;
	shrink->size = settings->size;
	shrink->timeout_ms = timeout_ms;
	shrink->epoll_fd = shrink->watch.stop_fd = -1;
	err = start(shrink);
	if (err)
		rd_shrink_destroy(shrink);
	else
		*made = shrink;
	return err;
}

void rd_shrink_destroy(struct rd_shrink *shrink)
{
	if (!shrink)
		return;
	rd_shrink_watch_stop(shrink);
	if (shrink->epoll_fd >= 0) {
		rd_control_socket_close(&shrink->host, false);
		rd_host_finish(shrink);
		close(shrink->epoll_fd);
	}
	free(shrink->fates);
	free(shrink->visits);
	free(shrink->visit_of);
	free(shrink->rings);
	free(shrink);
}

/* ---- Rounds -------------------------------------------------------------------------------- */

static int find_host(const struct rd_shrink *shrink)
{
	int rank = 0;

	while (rank < shrink->rank && shrink->fates[rank] != RD_FATE_EXPECTED)
		rank++;
	return rank;
}

static int meet_once(struct rd_shrink *shrink, struct rd_settings *settings)
{
	int host = find_host(shrink);

	return host == shrink->rank ? rd_host_meet(shrink, settings)
				    : rd_guest_meet(shrink, host, settings);
}

/* Each round but the last ends with a death; or a rank that is too late. */
int rd_shrink_meet(struct rd_shrink *shrink, struct rd_settings *settings)
{
	int err;

	do {
		if (shrink->rounds++ > 2 * shrink->size)
			return rd_fail(RONDO_DIED, "rank %d: ranks went on failing while %d met",
				shrink->rank, shrink->size);
		err = meet_once(shrink, settings);
	} while (err > 0);
	if (!err)
		rd_shrink_watch_start(shrink);
	return err;
}

int rd_shrink_agree(struct rd_shrink *shrink, int error, const struct rd_control *made)
{
	int refusal;

	rd_shrink_watch_stop(shrink);
	refusal = error ? 0 : rd_vote(shrink, made);
	error = refusal ? refusal : error;
	return shrink->host ? rd_guest_agree(shrink, error, refusal != 0)
			    : rd_host_agree(shrink, error, refusal != 0);
}
