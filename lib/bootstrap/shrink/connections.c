#include "bootstrap/shrink/connections.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "net/socket.h"

#define EVENTS_MAX 64
#define WAIT_MOST_MS 60000
#define STACK_SIZE (64 << 10)

/* Events of the epoll: a rank's number with one of these. */
#define MARK_ARRIVAL (UINT64_C(1) << 34)
#define MARK_DIALLED (UINT64_C(1) << 33)
#define MARK_ARRIVED (UINT64_C(1) << 32)

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
	struct rd_dialled *dialled = &shrink->dialled[rank];
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
		rd_shrink_serve(shrink);
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
			rd_shrink_serve(shrink);
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
	struct rd_dialled *dialled = &shrink->dialled[rank];

	send_due(shrink, rank, shrink->arrived[rank] ? &shrink->arrived[rank] : &dialled->socket);
	if (shrink->arrived[rank] && !peer->here)
		rd_control_socket_close(&shrink->arrived[rank], false);
	if (!peer->dials || peer->attempt != dialled->attempt)
		rd_control_socket_close(&dialled->socket, false);
	if (peer->dials && !dialled->socket)
		dial(shrink, rank);
}

void rd_shrink_serve(struct rd_shrink *shrink)
{
	for (int rank = 0; rank < shrink->quorum.size; rank++)
		serve_rank(shrink, rank);
}

/* ---- Events --------------------------------------------------------------------------------- */

static void take_event(struct rd_shrink *shrink, uint64_t mark)
{
	int rank = (int)(uint32_t)mark;
	struct rd_dialled *dialled = &shrink->dialled[rank];
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

void rd_shrink_run(struct rd_shrink *shrink)
{
	struct epoll_event events[EVENTS_MAX];

	rd_shrink_serve(shrink);
	take_arrivals(shrink);
	while (is_at_work(shrink)) {
		int64_t until_ms = rd_quorum_deadline(&shrink->quorum), now_ms = rd_clock_ms();
		int count;

		until_ms = rd_sooner(until_ms, now_ms + WAIT_MOST_MS);
		count = epoll_wait(shrink->epoll_fd, events, EVENTS_MAX,
			until_ms > now_ms ? (int)(until_ms - now_ms) : 0);
		for (int i = 0; i < count && is_at_work(shrink); i++) {
			take_event(shrink, events[i].data.u64);
			rd_shrink_serve(shrink);
		}
		if (is_at_work(shrink))
			rd_quorum_tick(&shrink->quorum, rd_clock_ms());
		rd_shrink_serve(shrink);
		take_arrivals(shrink);
	}
}

/* ---- The watch ------------------------------------------------------------------------------- */

/* The first descriptor is the one that ends it. */
static void *wait_for_death(void *argument)
{
	struct rd_shrink *shrink = argument;
	struct rd_shrink_watch *watch = &shrink->watch;

	rd_log_rank(shrink->quorum.rank);
	while (poll(watch->fds, (nfds_t)watch->count, -1) < 0)
		; /* a signal */
	if (!watch->fds[0].revents)
		rd_control_fail_children(shrink->control, RONDO_DIED,
			"a rank died while the ranks that were left made a communicator");
	return NULL;
}

static void watch_end(struct rd_shrink_watch *watch, const struct rd_control_socket *socket)
{
	/* Messages stay for later. */
	if (socket)
		watch->fds[watch->count++] =
			(struct pollfd){ .fd = socket->connection.wire.fd, .events = POLLRDHUP };
}

void rd_shrink_watch_start(struct rd_shrink *shrink)
{
	struct rd_shrink_watch *watch = &shrink->watch;

	rd_control_spare_children(shrink->control);
	watch->fds = calloc(2 * (size_t)shrink->quorum.size + 1, sizeof(*watch->fds));
	watch->stop_fd = rd_above_stderr(eventfd(0, EFD_CLOEXEC));
	watch->count = 1;
	if (watch->fds) {
		watch->fds[0] = (struct pollfd){ .fd = watch->stop_fd, .events = POLLIN };
		for (int rank = 0; rank < shrink->quorum.size; rank++) {
			watch_end(watch, shrink->dialled[rank].socket);
			watch_end(watch, shrink->arrived[rank]);
		}
	}
	watch->runs = watch->fds && watch->stop_fd >= 0 &&
		      rd_thread_start(&watch->thread, STACK_SIZE, wait_for_death, shrink) == 0;
}

void rd_shrink_watch_stop(struct rd_shrink *shrink)
{
	struct rd_shrink_watch *watch = &shrink->watch;

	if (watch->runs && eventfd_write(watch->stop_fd, 1) == 0)
		pthread_join(watch->thread, NULL);
	if (watch->stop_fd >= 0)
		close(watch->stop_fd);
	free(watch->fds);
	*watch = (struct rd_shrink_watch){ .stop_fd = -1 };
}

/* ---- Life ----------------------------------------------------------------------------------- */

int rd_shrink_open(struct rd_shrink *shrink)
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

void rd_shrink_close(struct rd_shrink *shrink)
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
