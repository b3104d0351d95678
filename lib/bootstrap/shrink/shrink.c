#include "bootstrap/shrink/shrink.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "bootstrap/shrink/connections.h"
#include "net/socket.h"

/* ---- Life ----------------------------------------------------------------------------------- */

static int init_quorum(struct rd_shrink *shrink, struct rd_vote *vote, int timeout_ms)
{
	int size = shrink->settings->size, err;
	enum rd_presence *presence = calloc((size_t)size, sizeof(*presence));

	if (!presence)
		return rd_fail(RONDO_MEMORY, "no memory to shrink a comm of %d ranks", size);
	for (int rank = 0; rank < size; rank++)
		presence[rank] = rd_control_presence(shrink->control, rank);
	err = rd_quorum_init(&shrink->quorum, shrink->settings, rd_control_members(shrink->control),
		shrink->lineage->id, vote, timeout_ms, presence);
	free(presence);
	return err;
}

static int start(struct rd_shrink *shrink, struct rd_vote *vote, int timeout_ms)
{
	int err = init_quorum(shrink, vote, timeout_ms);

	if (!err && !shrink->lineage->arrivals)
		err = rd_fail(RONDO_INVALID,
			"rank %d: the communicator was shrunk before: shrink what it became",
			shrink->settings->rank);
	return err ? err : rd_shrink_open(shrink);
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
	shrink->lineage = rd_control_lineage(control);
	shrink->epoll_fd = shrink->arrival_fd = shrink->watch.stop_fd = -1;
	err = start(shrink, vote, timeout_ms);
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
	rd_shrink_close(shrink);
	rd_quorum_free(&shrink->quorum);
	free(shrink);
}

/* ---- Meeting -------------------------------------------------------------------------------- */

/* The leader's socket for the new comm. */
static int open_meeting(struct rd_shrink *shrink, int *fd, uint32_t *port)
{
	char address[RD_NUMERIC_ADDRESS];

	*fd = rd_listen_at(&shrink->lineage->arrivals->listener->near, 0);
	if (*fd < 0 || rd_socket_place(*fd, address, port))
		return rd_fail_errno(
			"rank %d cannot listen for the others", shrink->settings->rank);
	return 0;
}

/* The socket at which the ranks that have come are to meet; -1: none. */
static int propose(struct rd_shrink *shrink)
{
	uint32_t port = 0;
	int fd, err = open_meeting(shrink, &fd, &port);

	if (err)
		rd_quorum_give_up(&shrink->quorum, err, rondo_last_error());
	else
		rd_quorum_propose(&shrink->quorum, port);
	rd_shrink_serve(shrink);
	return fd;
}

static int result(const struct rd_shrink *shrink)
{
	const struct rd_quorum *quorum = &shrink->quorum;

	return quorum->phase == RD_QUORUM_FAILED ? rd_fail(quorum->error, "%s", quorum->reason)
						 : quorum->phase == RD_QUORUM_AGAIN;
}

int rd_shrink_meet(struct rd_shrink *shrink, struct rd_settings *settings)
{
	struct rd_quorum *quorum = &shrink->quorum;
	int fd = -1;

	while (quorum->phase == RD_QUORUM_AGAIN) {
		if (fd >= 0)
			close(fd);
		fd = -1;
		rd_quorum_begin(quorum, rd_clock_ms());
		rd_shrink_run(shrink);
		if (quorum->phase == RD_QUORUM_COMPLETE)
			fd = propose(shrink);
	}
	if (quorum->phase == RD_QUORUM_FAILED) {
		if (fd >= 0)
			close(fd);
		return result(shrink);
	}
	*settings = *shrink->settings;
	rd_lineage_meet(settings, &quorum->members[quorum->leader].lineage);
	settings->rank = quorum->number;
	settings->size = quorum->planned;
	settings->port = (int)quorum->port;
	settings->rendezvous_fd = fd;
	rd_shrink_watch_start(shrink);
	return 0;
}

int rd_shrink_agree(struct rd_shrink *shrink, int error, const struct rd_control *made)
{
	rd_shrink_watch_stop(shrink);
	rd_quorum_vote(&shrink->quorum, error, rondo_last_error(),
		made ? rd_control_members(made) : NULL, rd_clock_ms());
	rd_shrink_run(shrink);
	return result(shrink);
}
