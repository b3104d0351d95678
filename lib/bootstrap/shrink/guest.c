#include "bootstrap/shrink/guest.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/error.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/shrink/rings.h"
#include "bootstrap/shrink/vote.h"
#include "net/socket.h"

#define AGAIN_LEAST_MS 10
#define AGAIN_MOST_MS 250

/* ---- The connection ------------------------------------------------------------------------ */

/* Waits for an event of the connection; false: the time is over. */
static bool await_event(struct rd_shrink *shrink, int64_t until_ms)
{
	struct epoll_event event;
	int64_t left_ms;

	do {
		left_ms = until_ms - rd_clock_ms();
		if (left_ms <= 0)
			return false;
	} while (epoll_wait(shrink->epoll_fd, &event, 1, (int)rd_sooner(left_ms, 60000)) <= 0);
	return true;
}

/* 0: connected; else an errno. */
static int connect_once(
	struct rd_shrink *shrink, const struct rd_addresses *addresses, int index, int64_t until_ms)
{
	int fd = rd_connect_start(addresses, index), error;

	if (fd < 0)
		return errno;
	shrink->host = rd_control_socket_open(
		shrink->epoll_fd, fd, RD_MARK_HOST, EPOLLOUT, shrink->settings, false);
	if (!shrink->host)
		return ENOMEM;
	error = await_event(shrink, until_ms) ? rd_connect_finish(fd) : ETIMEDOUT;
	if (error) {
		rd_control_socket_close(&shrink->host, false);
		return error;
	}
	rd_socket_tune(fd, shrink->settings->heartbeat_timeout_ms);
	rd_control_socket_watch(shrink->host, EPOLLIN);
	return 0;
}

/* 0: connected; else an errno. A host that lives has its kernel answer at once. */
static int connect_to(struct rd_shrink *shrink, int host)
{
	int64_t until_ms = rd_clock_ms() + shrink->settings->heartbeat_timeout_ms;
	struct rd_addresses addresses = { 0 };
	struct rd_settings place;
	int error = EHOSTUNREACH;

	rd_shrink_place(shrink, host, &place);
	if (rd_resolve(&addresses, &place, until_ms))
		return EHOSTUNREACH;
	for (int i = 0; i < addresses.count && error; i++)
		error = connect_once(shrink, &addresses, i, until_ms);
	return error;
}

/* Waits for a message. 1; 0: the time is over; -1: the connection is, with its errno in *error. */
static int receive(
	struct rd_shrink *shrink, struct rd_control_message *message, int *error, int64_t until_ms)
{
	for (;;) {
		int got = rd_control_socket_read(shrink->host, error);
		int took = rd_control_socket_take(shrink->host, message);

		if (took > 0)
			return 1;
		*error = took < 0 ? EPROTO : *error;
		if (got < 0 || took < 0)
			return -1;
		/* The proof may have ended: what waits for it goes. */
		if (!rd_control_socket_flush(shrink->host, error))
			return -1;
		if (got == 0 && !await_event(shrink, until_ms))
			return 0;
	}
}

static bool send_message(struct rd_shrink *shrink, struct rd_control_message *message, int *error)
{
	rd_control_socket_put(shrink->host, message);
	return rd_control_socket_flush(shrink->host, error);
}

/* ---- Meeting ------------------------------------------------------------------------------- */

/* As receive(), for the answer to a GATHER. A host that has come waits for the others: then this
   rank waits as long as it does. */
static int gather(
	struct rd_shrink *shrink, struct rd_control_message *message, int *error, int64_t until_ms)
{
	struct rd_control_message ask = { .kind = RD_CONTROL_GATHER,
		.gather = { shrink->lineage->id, shrink->lineage->place.origin } };
	int got;

	if (!send_message(shrink, &ask, error))
		return -1;
	got = receive(shrink, message, error, until_ms);
	if (got > 0 && message->kind == RD_CONTROL_HEARTBEAT)
		got = receive(shrink, message, error,
			rd_clock_ms() + message->heartbeat.timeout_ms + RD_REPORT_MS);
	return got;
}

static int take_verdict(const struct rd_control_message *message)
{
	return rd_fail(message->verdict.error, "%s", message->verdict.reason);
}

static int take_answer(struct rd_shrink *shrink, int host, const struct rd_control_message *message,
	struct rd_settings *settings)
{
	if (message->kind == RD_CONTROL_PLAN && message->plan.rank < message->plan.size &&
		message->plan.size <= shrink->size) {
		rd_shrink_place(shrink, host, settings);
		settings->rank = message->plan.rank;
		settings->size = message->plan.size;
		settings->port = message->plan.port;
		shrink->planned = message->plan.size;
		shrink->lost = message->plan.lost;
		return 0;
	}
	rd_control_socket_close(&shrink->host, false);
	if (message->kind != RD_CONTROL_VERDICT)
		return rd_fail(RONDO_PROTOCOL, "rank %d sent bytes that make no sense", host);
	return message->verdict.error == RONDO_DIED ? 2 : take_verdict(message);
}

/* The host's process is gone, or may come to its shrink yet: its place shows it. */
static bool is_passing(int error)
{
	return error == 0 || error == ECONNREFUSED || error == ECONNRESET ||
	       error == ECONNABORTED || error == EPIPE || error == EPROTO;
}

int rd_guest_meet(struct rd_shrink *shrink, int host, struct rd_settings *settings)
{
	int64_t until_ms = rd_clock_ms() + shrink->timeout_ms;
	int again_ms = AGAIN_LEAST_MS;

	rd_rings_doubt(shrink);
	for (;;) {
		struct rd_control_message message;
		int error = connect_to(shrink, host), got;

		if (rd_lacks_resources(error)) {
			errno = error;
			return rd_fail_errno("rank %d cannot reach rank %d", shrink->rank, host);
		}
		/* A process that ends resets a connection that it has not taken. */
		if (error && error != ECONNRESET && rd_rings_judge(shrink, host, error))
			return 1;
		got = -1;
		if (!error) {
			got = gather(shrink, &message, &error, until_ms);
			rd_rings_doubt(shrink);
		}
		if (got > 0)
			return take_answer(shrink, host, &message, settings);
		rd_control_socket_close(&shrink->host, false);
		if (got == 0 || !is_passing(error) || rd_clock_ms() >= until_ms) {
			shrink->fates[host] = RD_FATE_LOST;
			return 1;
		}
		poll(NULL, 0, again_ms);
		again_ms = again_ms * 2 < AGAIN_MOST_MS ? again_ms * 2 : AGAIN_MOST_MS;
	}
}

/* ---- Agreeing ------------------------------------------------------------------------------ */

int rd_guest_agree(struct rd_shrink *shrink, int failed, bool refuses)
{
	/* The host makes the comm as well, then waits for others that do. */
	int64_t until_ms = rd_clock_ms() + 2 * shrink->settings->init_timeout_ms + 2 * RD_REPORT_MS;
	struct rd_control_message message = { .kind = RD_CONTROL_MADE,
		.made = { .error = failed, .refuses = refuses } };
	int error = 0, got = -1;

	if (failed)
		snprintf(
			message.made.reason, sizeof(message.made.reason), "%s", rondo_last_error());
	if (send_message(shrink, &message, &error))
		got = receive(shrink, &message, &error, until_ms);
	rd_control_socket_close(&shrink->host, false);
	if (got <= 0)
		return 1;
	if (message.kind == RD_CONTROL_MADE && !message.made.error && !failed)
		return 0;
	if (message.kind == RD_CONTROL_VERDICT && !failed)
		rd_vote_forget(shrink->vote);
	return message.kind == RD_CONTROL_VERDICT && message.verdict.error != RONDO_DIED
		       ? take_verdict(&message)
		       : 1;
}
