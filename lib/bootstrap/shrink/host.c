#include "bootstrap/shrink/host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/shrink/rings.h"
#include "bootstrap/shrink/vote.h"
#include "net/socket.h"

#define EVENTS_MAX 64

/* ---- Visits -------------------------------------------------------------------------------- */

static void end_visit(struct rd_shrink *shrink, struct rd_visit *visit)
{
	rd_control_socket_close(&visit->connection, false);
	if (visit->rank >= 0)
		rd_rings_doubt(shrink);
	if (visit->rank >= 0 && shrink->visit_of[visit->rank] == (int)(visit - shrink->visits))
		shrink->visit_of[visit->rank] = -1;
	visit->rank = -1;
}

/* Sends a message that fits the socket's buffer. */
static bool tell(struct rd_visit *visit, struct rd_control_message *message)
{
	int error;

	rd_control_socket_put(visit->connection, message);
	return rd_control_socket_flush(visit->connection, &error) &&
	       rd_control_socket_is_flushed(visit->connection);
}

static struct rd_visit *visit_from(struct rd_shrink *shrink, int rank)
{
	return shrink->visit_of[rank] < 0 ? NULL : &shrink->visits[shrink->visit_of[rank]];
}

/* Those that have shown the secret go last: a replay may have, too. */
static bool goes_before(const struct rd_visit *a, const struct rd_visit *b)
{
	bool promising = rd_control_socket_has_shown_key(a->connection);

	if (promising != rd_control_socket_has_shown_key(b->connection))
		return !promising;
	return a->came_ms < b->came_ms;
}

struct rd_visit *rd_host_find_room(struct rd_shrink *shrink)
{
	struct rd_visit *first = NULL;

	for (int i = 0; i < shrink->visit_count; i++) {
		struct rd_visit *visit = &shrink->visits[i];

		if (!visit->connection)
			return visit;
		if (visit->rank < 0 && (!first || goes_before(visit, first)))
			first = visit;
	}
	if (first)
		end_visit(shrink, first);
	return first;
}

static int rank_of(const struct rd_shrink *shrink, const struct rd_control_message *message)
{
	for (int rank = shrink->rank + 1; rank < shrink->size; rank++)
		if (message->gather.lineage == shrink->lineage->id &&
			message->gather.origin == shrink->members[rank].lineage.origin)
			return rank;
	return -1;
}

static void send_verdict(struct rd_visit *visit, int error, const char *reason)
{
	struct rd_control_message message = { .kind = RD_CONTROL_VERDICT,
		.verdict = { .error = error, .lost = -1 } };

	snprintf(message.verdict.reason, sizeof(message.verdict.reason), "%s", reason);
	tell(visit, &message);
}

/* A rank that comes again has lost its first connection. */
static void welcome(struct rd_shrink *shrink, struct rd_visit *visit, int rank)
{
	int64_t left_ms = shrink->until_ms - rd_clock_ms();
	struct rd_control_message message = { .kind = RD_CONTROL_HEARTBEAT,
		.heartbeat = { left_ms > 0 ? (uint32_t)left_ms : 0 } };
	struct rd_visit *before = visit_from(shrink, rank);

	if (before)
		end_visit(shrink, before);
	rd_rings_stop(shrink, rank);
	shrink->fates[rank] = RD_FATE_EXPECTED;
	shrink->visit_of[rank] = (int)(visit - shrink->visits);
	visit->rank = rank;
	if (!tell(visit, &message))
		end_visit(shrink, visit);
}

static void take_message(struct rd_shrink *shrink, struct rd_visit *visit,
	const struct rd_control_message *message, bool meeting)
{
	int rank = message->kind == RD_CONTROL_GATHER ? rank_of(shrink, message) : -1;

	if (visit->rank < 0 && rank >= 0 && meeting) {
		welcome(shrink, visit, rank);
	} else if (visit->rank < 0 && message->kind == RD_CONTROL_GATHER && meeting) {
		send_verdict(visit, RONDO_TIMEOUT,
			"this rank was lost to the others, which went on without it");
		end_visit(shrink, visit);
	} else if (visit->rank >= 0 && message->kind == RD_CONTROL_MADE && !meeting &&
		   visit->made > 0) {
		visit->made = message->made.error;
		visit->refuses = visit->made && message->made.refuses;
		if (visit->made)
			rd_fail(visit->made, "%s", message->made.reason);
	} else {
		end_visit(shrink, visit);
	}
}

static void receive(struct rd_shrink *shrink, struct rd_visit *visit, bool meeting)
{
	struct rd_control_message message;
	int error, got, took = 0;

	do {
		got = visit->connection ? rd_control_socket_read(visit->connection, &error) : 0;
		while (visit->connection &&
			(took = rd_control_socket_take(visit->connection, &message)) > 0)
			take_message(shrink, visit, &message, meeting);
	} while (visit->connection && got > 0 && took == 0);
	if (visit->connection && (got < 0 || took < 0))
		end_visit(shrink, visit);
}

/* Read at once, so that others which come meanwhile displace no guest that has sent its part. */
static void accept_visits(struct rd_shrink *shrink, bool meeting, int64_t now_ms)
{
	for (int i = 0; i < RD_PENDING_MAX; i++) {
		int fd = rd_accept(shrink->lineage->listen_fd);
		struct rd_visit *visit = fd < 0 ? NULL : rd_host_find_room(shrink);

		if (fd < 0 && rd_is_forbidden(errno))
			shrink->forbidden = errno;
		if (fd < 0)
			return;
		if (!visit) {
			close(fd);
			continue;
		}
		rd_socket_tune(fd, shrink->settings->heartbeat_timeout_ms);
		*visit = (struct rd_visit){ .rank = -1, .made = 1, .came_ms = now_ms };
		visit->connection = rd_control_socket_open(shrink->epoll_fd, fd,
			(uint64_t)(visit - shrink->visits), EPOLLIN, shrink->settings, true);
		receive(shrink, visit, meeting);
	}
}

static void drop_strangers(struct rd_shrink *shrink, int64_t now_ms)
{
	for (int i = 0; i < shrink->visit_count; i++) {
		struct rd_visit *visit = &shrink->visits[i];

		if (visit->connection && visit->rank < 0 &&
			now_ms >= visit->came_ms + RD_PENDING_MS)
			end_visit(shrink, visit);
	}
}

/* ---- Waiting ------------------------------------------------------------------------------- */

static void wait_for_events(struct rd_shrink *shrink, bool meeting)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(shrink->epoll_fd, events, EVENTS_MAX, RD_SHRINK_TICK_MS);
	int64_t now_ms = rd_clock_ms();

	for (int i = 0; i < count; i++) {
		uint64_t mark = events[i].data.u64;

		if (mark == RD_MARK_LINEAGE)
			accept_visits(shrink, meeting, now_ms);
		else if (mark >= RD_MARK_RINGS)
			rd_rings_take(shrink, (int)(mark - RD_MARK_RINGS), now_ms);
		else if (shrink->visits[mark].connection)
			receive(shrink, &shrink->visits[mark], meeting);
	}
	drop_strangers(shrink, now_ms);
}

static bool may_come(const struct rd_shrink *shrink, int rank)
{
	return rank != shrink->rank && shrink->visit_of[rank] < 0 &&
	       shrink->fates[rank] < RD_FATE_LOST;
}

static bool is_complete(const struct rd_shrink *shrink)
{
	for (int rank = 0; rank < shrink->size; rank++)
		if (may_come(shrink, rank))
			return false;
	return true;
}

static void await_guests(struct rd_shrink *shrink)
{
	int64_t now_ms = rd_clock_ms();

	shrink->until_ms = now_ms + shrink->timeout_ms;
	rd_rings_start(shrink, now_ms);
	rd_rings_tick(shrink, now_ms);
	while (!is_complete(shrink) && now_ms < shrink->until_ms && !shrink->forbidden) {
		wait_for_events(shrink, true);
		now_ms = rd_clock_ms();
		rd_rings_tick(shrink, now_ms);
	}
	for (int rank = 0; rank < shrink->size; rank++) {
		if (may_come(shrink, rank))
			shrink->fates[rank] = RD_FATE_LOST;
		rd_rings_stop(shrink, rank);
	}
}

/* ---- The plan ------------------------------------------------------------------------------ */

/* Ranks that are dead by now may have gone on with lost ones before: they count against this side.
   The host is the lowest of those that have come. */
static int check_count(struct rd_shrink *shrink)
{
	int here = 1, lost = 0, lowest = 0;

	for (int rank = shrink->size - 1; rank >= 0; rank--) {
		here += shrink->visit_of[rank] >= 0;
		if (shrink->fates[rank] != RD_FATE_LOST)
			continue;
		lost++;
		lowest = rank;
	}
	shrink->planned = here;
	shrink->lost = lost;
	if (lost == 0 || 2 * here > shrink->size || (2 * here == shrink->size && shrink->rank == 0))
		return 0;
	return rd_fail(RONDO_TIMEOUT,
		"rank %d met %d of %d ranks, but %d, rank %d the first, may live on where they are "
		"not reached: fewer than half, or half without rank 0, must not go on",
		shrink->rank, here, shrink->size, lost, lowest);
}

static int open_meeting(struct rd_shrink *shrink, struct rd_settings *settings)
{
	struct sockaddr_storage near = { 0 };
	socklen_t size = sizeof(near);
	char address[RD_NUMERIC_ADDRESS];
	uint32_t port = 0;

	rd_shrink_place(shrink, shrink->rank, settings);
	if (getsockname(shrink->lineage->listen_fd, (struct sockaddr *)&near, &size) == 0)
		settings->rendezvous_fd = rd_listen_near(&near);
	if (settings->rendezvous_fd < 0 || rd_socket_place(settings->rendezvous_fd, address, &port))
		return rd_fail_errno("rank %d cannot listen for the others", shrink->rank);
	settings->port = (int)port;
	return 0;
}

/* Numbers the ranks that have come, in their order. */
static void send_plans(struct rd_shrink *shrink, struct rd_settings *settings)
{
	struct rd_control_message message = { .kind = RD_CONTROL_PLAN };

	settings->rank = 0;
	settings->size = shrink->planned;
	message.plan.size = settings->size;
	message.plan.port = settings->port;
	message.plan.lost = shrink->lost;
	for (int rank = 0; rank < shrink->size; rank++) {
		struct rd_visit *visit = visit_from(shrink, rank);

		if (!visit)
			continue;
		message.plan.rank++;
		visit->made = tell(visit, &message) ? 1 : RONDO_DIED;
		visit->refuses = false;
	}
}

static void send_verdicts(struct rd_shrink *shrink, int error)
{
	char reason[RD_REASON_SIZE];

	snprintf(reason, sizeof(reason), "%s", rondo_last_error());
	for (int rank = 0; rank < shrink->size; rank++)
		if (visit_from(shrink, rank))
			send_verdict(visit_from(shrink, rank), error, reason);
	rd_host_finish(shrink);
	rd_fail(error, "%s", reason);
}

int rd_host_meet(struct rd_shrink *shrink, struct rd_settings *settings)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = RD_MARK_LINEAGE };
	int err = 0;

	if (epoll_ctl(shrink->epoll_fd, EPOLL_CTL_ADD, shrink->lineage->listen_fd, &event))
		return rd_fail_errno("cannot watch for the other ranks");
	await_guests(shrink);
	errno = shrink->forbidden;
	err = errno ? rd_fail_errno("rank %d cannot accept a connection", shrink->rank)
		    : check_count(shrink);
	if (!err)
		err = open_meeting(shrink, settings);
	if (err)
		send_verdicts(shrink, err);
	else
		send_plans(shrink, settings);
	return err;
}

/* ---- Agreeing ------------------------------------------------------------------------------ */

/* The first error of a guest; one that is gone, or has not made the comm, has died. *awaited: all
   are there, and some may make it yet. */
static int judge_guests(const struct rd_shrink *shrink, int planned, bool *awaited)
{
	int present = 0, unmade = 0, err = 0;

	for (int i = 0; i < shrink->visit_count; i++) {
		const struct rd_visit *visit = &shrink->visits[i];

		if (!visit->connection || visit->rank < 0)
			continue;
		present++;
		unmade += visit->made > 0;
		if (visit->made && !err)
			err = visit->made > 0 ? RONDO_DIED : visit->made;
	}
	*awaited = unmade > 0 && present == planned;
	return present < planned ? RONDO_DIED : err;
}

/* Where the ranks may get on without one of them. A rank revokes the new comm where it has given it
   up already: its program cannot have. */
static bool may_pass(int error)
{
	return error == RONDO_DIED || error == RONDO_BROKEN || error == RONDO_TIMEOUT ||
	       error == RONDO_REVOKED;
}

static int count_guests(const struct rd_shrink *shrink)
{
	int count = 0;

	for (int rank = 0; rank < shrink->size; rank++)
		count += shrink->visit_of[rank] >= 0;
	return count;
}

static void commit(struct rd_shrink *shrink)
{
	struct rd_control_message message = { .kind = RD_CONTROL_MADE };

	for (int rank = 0; rank < shrink->size; rank++)
		if (visit_from(shrink, rank))
			tell(visit_from(shrink, rank), &message);
	rd_host_finish(shrink);
}

static int find_refusal(const struct rd_shrink *shrink)
{
	for (int i = 0; i < shrink->visit_count; i++)
		if (shrink->visits[i].connection && shrink->visits[i].refuses)
			return shrink->visits[i].made;
	return 0;
}

int rd_host_agree(struct rd_shrink *shrink, int error, bool refuses)
{
	int64_t until_ms = rd_clock_ms() + shrink->settings->init_timeout_ms + RD_REPORT_MS;
	int planned = count_guests(shrink), theirs;
	char reason[RD_REASON_SIZE];
	bool voted = !error, awaited;

	snprintf(reason, sizeof(reason), "%s", rondo_last_error());
	theirs = judge_guests(shrink, planned, &awaited);
	/* Where this rank has given up, guests may still look for where they were to meet. */
	while (!may_pass(error) && awaited && rd_clock_ms() < until_ms) {
		wait_for_events(shrink, false);
		theirs = judge_guests(shrink, planned, &awaited);
	}
	if (!error && !theirs) {
		commit(shrink);
		return 0;
	}
	if (error && (refuses || !may_pass(error)))
		rd_fail(error, "%s", reason);
	else if (find_refusal(shrink))
		error = find_refusal(shrink);
	else
		error = theirs && !may_pass(theirs) ? theirs : RONDO_DIED;
	/* A plan that this rank has not voted for ends nothing that it remembers. */
	if (voted)
		rd_vote_forget(shrink->vote);
	send_verdicts(shrink, error);
	return error == RONDO_DIED ? 1 : error;
}

void rd_host_finish(struct rd_shrink *shrink)
{
	epoll_ctl(shrink->epoll_fd, EPOLL_CTL_DEL, shrink->lineage->listen_fd, NULL);
	for (int rank = 0; rank < shrink->size; rank++)
		rd_rings_stop(shrink, rank);
	for (int i = 0; i < shrink->visit_count; i++)
		if (shrink->visits[i].connection)
			end_visit(shrink, &shrink->visits[i]);
}
