#include "bootstrap/shrink/shrink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "bootstrap/control_socket.h"
#include "net/socket.h"

#define EVENTS_MAX 64
#define WAIT_MOST_MS 60000

/* Events of the epoll: a rank's number with one of these. */
#define MARK_ARRIVAL (UINT64_C(1) << 34)
#define MARK_DIALLED (UINT64_C(1) << 33)
#define MARK_ARRIVED (UINT64_C(1) << 32)

/* A connection to a rank's place, as rd_quorum_peer.dials. */
struct dialled {
	struct rd_control_socket *socket; /* NULL: none */
	unsigned attempt; /* of the quorum */
};

struct rd_shrink {
	const struct rd_settings *settings; /* the caller's */
	struct rd_control *control; /* the caller's */
	const struct rd_lineage *lineage;
	struct rd_quorum quorum;
	int epoll_fd;
	int arrival_fd; /* an eventfd, readable where one has come */
	struct dialled *dialled; /* [size] */
	struct rd_control_socket **arrived; /* [size]: by which a member came; NULL: none */
	/* A rank that dies before it comes to the new comm ends the making of that at once, not by
	   its timeout. The fd is an epoll of the connections' ends. */
	struct rd_cancellation making;
};

/* ---- Connections to other ranks' places ----------------------------------------------------- */

static void lose_dialled(struct rd_shrink *shrink, int rank, int error)
{
	rd_control_socket_close(&shrink->dialled[rank].socket, false);
	rd_quorum_disconnected(&shrink->quorum, rank, error, rd_clock_ms());
}

/* The first address does: each host listens at one. 0, or an errno. */
static int start_dialling(struct rd_shrink *shrink, int rank)
{
	const struct rd_lineage_address *at = &shrink->quorum.members[rank].lineage;
	struct dialled *dialled = &shrink->dialled[rank];
	struct rd_settings place = *shrink->settings;
	struct rd_addresses addresses = { 0 };
	int error;

	rd_lineage_meet(&place, at);
	error = rd_resolve(&addresses, &place, rd_clock_ms());
	rd_settings_forget(&place);
	if (error)
		return EHOSTUNREACH;
	dialled->socket = rd_control_socket_dial(
		shrink->epoll_fd, &addresses, 0, MARK_DIALLED + (uint64_t)rank, shrink->settings);
	return dialled->socket ? 0 : errno;
}

static void dial(struct rd_shrink *shrink, int rank)
{
	int error = start_dialling(shrink, rank);

	shrink->dialled[rank].attempt = shrink->quorum.peers[rank].attempt;
	if (error)
		lose_dialled(shrink, rank, error);
}

static void finish_dialling(struct rd_shrink *shrink, int rank)
{
	int error = 0, timeout_ms = shrink->settings->heartbeat_timeout_ms;

	if (rd_control_socket_connect(shrink->dialled[rank].socket, timeout_ms, &error) < 0)
		lose_dialled(shrink, rank, error);
	else
		rd_quorum_connected(&shrink->quorum, rank);
}

/* ---- Connections by which members come ------------------------------------------------------ */

static void lose_arrived(struct rd_shrink *shrink, int rank)
{
	rd_control_socket_close(&shrink->arrived[rank], false);
	rd_quorum_left(&shrink->quorum, rank, rd_clock_ms());
}

/* A rank of this lineage that is none of those that shrink. */
static void refuse(struct rd_shrink *shrink, struct rd_wire *wire)
{
	static const char reason[] = "this rank was lost to the others, which went on without it";
	struct rd_control_message verdict = { .kind = RD_CONTROL_VERDICT,
		.verdict = { .error = RONDO_TIMEOUT, .lost = -1 } };
	struct rd_control_socket *socket = rd_control_socket_adopt(shrink->epoll_fd, wire, 0, 0);
	int error;

	if (!socket)
		return;
	memcpy(verdict.verdict.reason, reason, sizeof(reason));
	rd_control_socket_put(socket, &verdict);
	rd_control_socket_flush(socket, &error);
	rd_control_socket_close(&socket, false);
}

static void receive(struct rd_shrink *shrink, int rank, struct rd_control_socket **socket);
/* Sends and closes what the quorum asks for, after it was told something. */
static void serve(struct rd_shrink *shrink);

static void adopt(struct rd_shrink *shrink, struct rd_arrival *arrival)
{
	struct rd_control_message message;
	int rank;

	rd_control_decode(arrival->greeting, arrival->greeting_size, &message);
	rank = rd_quorum_rank_of(&shrink->quorum, &message);
	if (rank < 0 && shrink->quorum.phase == RD_QUORUM_MEETING) {
		refuse(shrink, &arrival->wire);
		return;
	}
	if (rank < 0 || !rd_quorum_arrived(&shrink->quorum, rank, rd_clock_ms())) {
		rd_wire_close(&arrival->wire);
		return;
	}
	rd_control_socket_close(&shrink->arrived[rank], false);
	rd_socket_tune(arrival->wire.fd, shrink->settings->heartbeat_timeout_ms);
	shrink->arrived[rank] = rd_control_socket_adopt(
		shrink->epoll_fd, &arrival->wire, MARK_ARRIVED + (uint64_t)rank, EPOLLIN);
	if (shrink->arrived[rank])
		receive(shrink, rank, &shrink->arrived[rank]);
	else
		rd_quorum_left(&shrink->quorum, rank, rd_clock_ms());
}

static void take_arrivals(struct rd_shrink *shrink)
{
	struct rd_arrival *arrival;
	int error;

	while (rd_quorum_listens(&shrink->quorum) &&
		(arrival = rd_arrivals_take(shrink->lineage->arrivals))) {
		adopt(shrink, arrival);
		free(arrival);
		serve(shrink);
	}
	error = rd_listener_error(shrink->lineage->arrivals->listener, NULL);
	if (rd_quorum_listens(&shrink->quorum) && rd_is_forbidden(error))
		rd_quorum_cannot_accept(&shrink->quorum, error);
}

/* ---- Messages ------------------------------------------------------------------------------- */

static void lose(struct rd_shrink *shrink, int rank, struct rd_control_socket **socket, int error)
{
	if (socket == &shrink->arrived[rank])
		lose_arrived(shrink, rank);
	else
		lose_dialled(shrink, rank, error);
}

/* The quorum may close the connection by a message. */
static void receive(struct rd_shrink *shrink, int rank, struct rd_control_socket **socket)
{
	struct rd_control_message message;
	int error = 0, got, took = 0;

	do {
		got = *socket ? rd_control_socket_read(*socket, &error) : 0;
		while (*socket && (took = rd_control_socket_take(*socket, &message)) > 0) {
			rd_quorum_received(&shrink->quorum, rank, &message, rd_clock_ms());
			serve(shrink);
		}
	} while (*socket && got > 0 && took == 0);
	if (*socket && (got < 0 || took < 0))
		lose(shrink, rank, socket, took < 0 ? EPROTO : error);
}

/* A message fits the socket's buffer; before the proof it waits for that. */
static void send_due(struct rd_shrink *shrink, int rank, struct rd_control_socket **socket)
{
	struct rd_control_message message;
	int error = 0;

	if (!*socket || (*socket)->connecting)
		return;
	while (rd_quorum_next(&shrink->quorum, rank, &message, rd_clock_ms()))
		rd_control_socket_put(*socket, &message);
	if (!rd_control_socket_flush(*socket, &error))
		lose(shrink, rank, socket, error);
}

static void serve_rank(struct rd_shrink *shrink, int rank)
{
	const struct rd_quorum_peer *peer = &shrink->quorum.peers[rank];
	struct dialled *dialled = &shrink->dialled[rank];

	send_due(shrink, rank, shrink->arrived[rank] ? &shrink->arrived[rank] : &dialled->socket);
	if (shrink->arrived[rank] && !peer->here)
		rd_control_socket_close(&shrink->arrived[rank], false);
	if (!peer->dials || peer->attempt != dialled->attempt)
		rd_control_socket_close(&dialled->socket, false);
	if (peer->dials && !dialled->socket)
		dial(shrink, rank);
}

static void serve(struct rd_shrink *shrink)
{
	for (int rank = 0; rank < shrink->quorum.size; rank++)
		serve_rank(shrink, rank);
}

/* ---- Events --------------------------------------------------------------------------------- */

static void take_event(struct rd_shrink *shrink, uint64_t mark)
{
	int rank = (int)(uint32_t)mark;
	struct dialled *dialled = &shrink->dialled[rank];
	eventfd_t number;

	if (mark == MARK_ARRIVAL) {
		/* All that have come are taken, whatever the number. */
		if (eventfd_read(shrink->arrival_fd, &number) == 0)
			take_arrivals(shrink);
		return;
	}
	if (mark >= MARK_DIALLED && dialled->socket && dialled->socket->connecting)
		finish_dialling(shrink, rank);
	else if (mark >= MARK_DIALLED && dialled->socket)
		receive(shrink, rank, &dialled->socket);
	else if (mark < MARK_DIALLED && shrink->arrived[rank])
		receive(shrink, rank, &shrink->arrived[rank]);
}

static bool is_at_work(const struct rd_shrink *shrink)
{
	return shrink->quorum.phase == RD_QUORUM_MEETING ||
	       shrink->quorum.phase == RD_QUORUM_VOTING;
}

/* Until it neither meets nor votes. */
static void run_quorum(struct rd_shrink *shrink)
{
	struct epoll_event events[EVENTS_MAX];

	serve(shrink);
	take_arrivals(shrink);
	while (is_at_work(shrink)) {
		int64_t until_ms = rd_quorum_deadline(&shrink->quorum), now_ms = rd_clock_ms();
		int count;

		until_ms = rd_sooner(until_ms, now_ms + WAIT_MOST_MS);
		count = epoll_wait(shrink->epoll_fd, events, EVENTS_MAX,
			until_ms > now_ms ? (int)(until_ms - now_ms) : 0);
		for (int i = 0; i < count && is_at_work(shrink); i++) {
			take_event(shrink, events[i].data.u64);
			serve(shrink);
		}
		if (is_at_work(shrink))
			rd_quorum_tick(&shrink->quorum, rd_clock_ms());
		serve(shrink);
		take_arrivals(shrink);
	}
}

/* ---- The making of the new comm -------------------------------------------------------------- */

/* Messages stay for later. */
static void watch_end(const struct rd_shrink *shrink, const struct rd_control_socket *socket)
{
	struct epoll_event event = { .events = EPOLLRDHUP };

	if (socket)
		epoll_ctl(shrink->making.fd, EPOLL_CTL_ADD, socket->connection.wire.fd, &event);
}

/* Without the epoll, the timeout ends the making. */
static void begin_making(struct rd_shrink *shrink)
{
	shrink->making = (struct rd_cancellation){ .rank = shrink->quorum.number,
		.fd = rd_above_stderr(epoll_create1(EPOLL_CLOEXEC)),
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.change = PTHREAD_COND_INITIALIZER };
	if (shrink->making.fd < 0)
		return;
	for (int rank = 0; rank < shrink->quorum.size; rank++) {
		watch_end(shrink, shrink->dialled[rank].socket);
		watch_end(shrink, shrink->arrived[rank]);
	}
	rd_cancellation_begin(&shrink->making);
}

/* Also where it has not begun. */
static void end_making(struct rd_shrink *shrink)
{
	if (shrink->making.fd < 0)
		return;
	rd_cancellation_begin(NULL);
	close(shrink->making.fd);
	shrink->making.fd = -1;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static int open_connections(struct rd_shrink *shrink)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = MARK_ARRIVAL };
	size_t size = (size_t)shrink->quorum.size;

	shrink->dialled = calloc(size, sizeof(*shrink->dialled));
	shrink->arrived = calloc(size, sizeof(*shrink->arrived));
	if (!shrink->dialled || !shrink->arrived)
		return rd_fail(RONDO_MEMORY, "no memory to shrink a comm of %zu ranks", size);
	shrink->epoll_fd = rd_above_stderr(epoll_create1(EPOLL_CLOEXEC));
	shrink->arrival_fd = rd_above_stderr(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (shrink->epoll_fd < 0 || shrink->arrival_fd < 0 ||
		epoll_ctl(shrink->epoll_fd, EPOLL_CTL_ADD, shrink->arrival_fd, &event))
		return rd_fail_errno("cannot watch for the other ranks");
	rd_arrivals_wake(shrink->lineage->arrivals, shrink->arrival_fd);
	return 0;
}

/* Also after an error of open_connections(). */
static void close_connections(struct rd_shrink *shrink)
{
	if (shrink->lineage->arrivals)
		rd_arrivals_wake(shrink->lineage->arrivals, -1);
	if (shrink->arrival_fd >= 0)
		close(shrink->arrival_fd);
	if (shrink->epoll_fd >= 0) {
		for (int rank = 0; rank < shrink->quorum.size; rank++) {
			rd_control_socket_close(&shrink->dialled[rank].socket, false);
			rd_control_socket_close(&shrink->arrived[rank], false);
		}
		close(shrink->epoll_fd);
	}
	free(shrink->dialled);
	free(shrink->arrived);
}

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
	return err ? err : open_connections(shrink);
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
	shrink->epoll_fd = shrink->arrival_fd = shrink->making.fd = -1;
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
	end_making(shrink);
	close_connections(shrink);
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
	serve(shrink);
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
		run_quorum(shrink);
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
	begin_making(shrink);
	return 0;
}

int rd_shrink_agree(struct rd_shrink *shrink, int error, const struct rd_control *made)
{
	end_making(shrink);
	rd_quorum_vote(&shrink->quorum, error, rondo_last_error(),
		made ? rd_control_members(made) : NULL, rd_clock_ms());
	run_quorum(shrink);
	return result(shrink);
}
