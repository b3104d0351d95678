#include "bootstrap/server_reconnect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/reconnect.h"
#include "bootstrap/server.h"

static void close_probe(struct rd_server *server, struct rd_outage *outage)
{
	if (outage->probe_fd < 0)
		return;
	epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, outage->probe_fd, NULL);
	rd_close_on_fork_remove(&outage->unshared);
	close(outage->probe_fd);
	outage->probe_fd = -1;
}

/* ---- Life ---------------------------------------------------------------------------------- */

int rd_server_reconnect_listen(
	struct rd_server *server, const struct sockaddr_storage *address, uint64_t mark)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = mark };
	struct rd_server_reconnect *reconnect = &server->reconnect;
	char here[RD_LINE_ADDRESS];

	reconnect->mark = mark;
	reconnect->listen_fd = rd_listen_near(address);
	if (reconnect->listen_fd >= 0)
		rd_close_on_fork_add(&reconnect->unshared, &reconnect->listen_fd);
	if (reconnect->listen_fd >= 0 &&
		!rd_socket_place(reconnect->listen_fd, here, &reconnect->port) &&
		!epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, reconnect->listen_fd, &event))
		return 0;
	return rd_fail_errno("rank 0 cannot listen for connections that go on");
}

int rd_server_reconnect_start(struct rd_server *server)
{
	int count = rd_coordinator_connection_count(server->coordinator);
	struct rd_outage *outages = calloc((size_t)count, sizeof(*outages));

	if (!outages)
		return rd_fail(RONDO_MEMORY, "no memory for the coordinator's connections");
	for (int i = 0; i < count; i++)
		outages[i].probe_fd = -1;
	server->reconnect.outages = outages;
	rd_coordinator_set_port(server->coordinator, server->reconnect.port);
	return 0;
}

void rd_server_reconnect_finish(struct rd_server *server)
{
	for (int i = 0; i < RD_PENDING_MAX; i++)
		rd_connection_close(&server->reconnect.pending[i].connection);
	if (server->reconnect.outages)
		for (int i = 0; i < rd_coordinator_connection_count(server->coordinator); i++)
			close_probe(server, &server->reconnect.outages[i]);
	if (server->reconnect.listen_fd >= 0) {
		rd_close_on_fork_remove(&server->reconnect.unshared);
		close(server->reconnect.listen_fd);
	}
	free(server->reconnect.outages);
}

void rd_server_reconnect_abandon(struct rd_server *server)
{
	for (int i = 0; i < RD_PENDING_MAX; i++)
		rd_connection_abandon(server->reconnect.pending[i].connection);
	/* The fork has closed the listener. */
	free(server->reconnect.outages);
}

/* ---- Probes -------------------------------------------------------------------------------- */

static void probe_later(struct rd_server *server, struct rd_outage *outage, int64_t now_ms)
{
	close_probe(server, outage);
	outage->pause_ms = rd_reconnect_pause_ms(outage->pause_ms);
	outage->probe_ms = now_ms + outage->pause_ms;
}

/* A probe has ended with this errno. */
static void end_probe(struct rd_server *server, int index, int error, int64_t now_ms)
{
	struct rd_outage *outage = &server->reconnect.outages[index];

	/* The rank has ended. */
	if (error == ECONNREFUSED)
		rd_server_lose(server, index, ECONNRESET);
	else
		probe_later(server, outage, now_ms);
}

static void begin_probe(struct rd_server *server, int index, int64_t now_ms)
{
	struct rd_outage *outage = &server->reconnect.outages[index];
	struct epoll_event event = { .events = EPOLLOUT,
		.data.u64 = server->reconnect.probe_mark + (uint64_t)index };
	int fd = rd_connect_start(&outage->place, 0);

	outage->probed = false;
	if (fd < 0) {
		end_probe(server, index, errno, now_ms);
		return;
	}
	outage->probe_fd = fd;
	rd_close_on_fork_add(&outage->unshared, &outage->probe_fd);
	outage->probe_ms = now_ms + RD_RECONNECT_ATTEMPT_MS;
	epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void rd_server_reconnect_probed(struct rd_server *server, int index, int64_t now_ms)
{
	struct rd_outage *outage = &server->reconnect.outages[index];
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP,
		.data.u64 = server->reconnect.probe_mark + (uint64_t)index };
	int error;

	if (outage->probe_fd < 0 || !server->connections[index])
		return;
	error = outage->probed ? ECONNRESET : rd_connect_finish(outage->probe_fd);
	if (error) {
		end_probe(server, index, error, now_ms);
		return;
	}
	outage->probed = true;
	outage->probe_ms = RD_NEVER;
	epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, outage->probe_fd, &event);
}

/* ---- Outages ------------------------------------------------------------------------------- */

static void end_outage(struct rd_server *server, int index)
{
	struct rd_outage *outage = &server->reconnect.outages[index];

	close_probe(server, outage);
	outage->error = 0;
}

/* The connection leaves its socket, after this error. False: it cannot go on. */
static bool leave(struct rd_server *server, int index, int error, int64_t now_ms)
{
	struct rd_outage *outage = &server->reconnect.outages[index];
	int rank = rd_coordinator_rank_at(server->coordinator, index);
	const struct rd_line_place *place;

	/* Before all have come, the rank does not know the port. Silence has lasted as long as it
	   may. */
	if (server->reconnect.port == 0 || rank < 0 || rd_means_silence(error) ||
		rd_coordinator_listening(server->coordinator))
		return false;
	place = &rd_coordinator_member(server->coordinator, rank)->place_of_line;
	if (rd_address_parse(&outage->place, place->address, place->port) ||
		rd_connection_leave(server->connections[index], &outage->received))
		return false;
	outage->error = error;
	outage->since_ms = outage->probe_ms = now_ms;
	outage->until_ms = now_ms + server->settings->unreachable_ms;
	outage->pause_ms = 0;
	if (rd_log_is_due(++outage->count))
		rd_log(RD_WARN, RD_BOOTSTRAP,
			"rank 0 lost the control connection of rank %d (%s, %u so far): it goes on "
			"over another",
			rank, strerror(error), outage->count);
	return true;
}

void rd_server_reconnect_begin(struct rd_server *server, int index, int64_t now_ms)
{
	int error = rd_connection_lost(server->connections[index]);

	if (leave(server, index, error, now_ms))
		rd_server_receive(server, index, now_ms);
	else
		rd_server_lose(server, index, error);
}

static void serve_outage(struct rd_server *server, int index, int64_t now_ms)
{
	struct rd_outage *outage = &server->reconnect.outages[index];

	if (!outage->error)
		return;
	if (!server->connections[index])
		end_outage(server, index);
	else if (now_ms >= outage->until_ms)
		rd_server_lose(server, index, RD_NOT_RESUMED);
	else if (now_ms >= outage->probe_ms && outage->probe_fd >= 0)
		end_probe(server, index, ETIMEDOUT, now_ms);
	else if (now_ms >= outage->probe_ms)
		begin_probe(server, index, now_ms);
}

/* ---- Comers -------------------------------------------------------------------------------- */

/* Nobody is accepted for a while: the epoll would report the listener again and again. */
static void listener_rests(struct rd_server *server, int64_t until_ms)
{
	struct epoll_event event = { .events = until_ms ? 0 : EPOLLIN,
		.data.u64 = server->reconnect.mark };

	server->reconnect.rest_ms = until_ms;
	epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, server->reconnect.listen_fd, &event);
}

/* This connection goes on over the pending one's socket, once that has the answer. */
static void go_on(struct rd_server *server, int index, struct rd_pending *pending,
	const struct rd_control_message *asked, int64_t now_ms)
{
	struct rd_outage *outage = &server->reconnect.outages[index];
	struct rd_connection *connection = server->connections[index];
	struct rd_control_message answer = *asked;
	int error;

	answer.resume.received = outage->received;
	rd_connection_put(pending->connection, &answer);
	if (!rd_connection_flush(pending->connection, &error) ||
		rd_connection_has_output(pending->connection))
		return;
	error = rd_connection_go_on(
		connection, &pending->connection, RD_RESUME_ANSWERED, asked->resume.received);
	rd_log(RD_INFO, RD_BOOTSTRAP, "rank 0 goes on with rank %d after %lld ms",
		asked->resume.rank, (long long)(now_ms - outage->since_ms));
	end_outage(server, index);
	if (error)
		rd_server_lose(server, index, EPROTO);
	else
		rd_server_receive(server, index, now_ms);
}

static void refuse(struct rd_pending *pending, const struct rd_control_message *asked)
{
	struct rd_control_message answer = *asked;
	int error;

	answer.resume.comm_id = 0;
	rd_connection_put(pending->connection, &answer);
	rd_connection_flush(pending->connection, &error);
}

/* The connection that this RESUME is of; -1: it is lost, or never was. */
static int connection_of(const struct rd_server *server, const struct rd_control_message *message)
{
	int index =
		message->resume.comm_id == server->comm_id
			? rd_coordinator_connection_of(server->coordinator, message->resume.rank)
			: -1;

	return index >= 0 && server->connections[index] && server->connections[index]->wire.resume
		       ? index
		       : -1;
}

static void take_resume(struct rd_server *server, struct rd_pending *pending,
	const struct rd_control_message *message, int64_t now_ms)
{
	int index = message->kind == RD_CONTROL_RESUME ? connection_of(server, message) : -1;
	struct rd_outage *outage = &server->reconnect.outages[index < 0 ? 0 : index];

	if (message->kind != RD_CONTROL_RESUME ||
		(index >= 0 && message->resume.attempt <= outage->attempt))
		return;
	/* This end may not have noticed yet. */
	if (index < 0 || (!outage->error && !leave(server, index, ECONNRESET, now_ms))) {
		refuse(pending, message);
		return;
	}
	outage->attempt = message->resume.attempt;
	go_on(server, index, pending, message, now_ms);
}

void rd_server_reconnect_receive(struct rd_server *server, int number, int64_t now_ms)
{
	struct rd_pending *pending = &server->reconnect.pending[number];
	struct rd_control_message message;
	int error, got, took;

	if (!pending->connection)
		return;
	do {
		got = rd_connection_read(pending->connection, &error);
		took = rd_connection_take(pending->connection, &message);
	} while (got > 0 && took == 0);
	if (took > 0)
		take_resume(server, pending, &message, now_ms);
	if (took != 0 || got < 0)
		rd_connection_close(&pending->connection);
}

/* The one to close for another: the oldest that is not promising, else the oldest. */
static bool goes_before(const struct rd_pending *a, const struct rd_pending *b)
{
	bool a_promises = rd_connection_is_promising(a->connection);

	if (a_promises != rd_connection_is_promising(b->connection))
		return !a_promises;
	return a->until_ms < b->until_ms;
}

/* Its RESUME may have come since it was accepted. */
static struct rd_pending *find_room(struct rd_server *server, int64_t now_ms)
{
	struct rd_pending *pending = server->reconnect.pending, *first = &pending[0];

	for (int i = 0; i < RD_PENDING_MAX; i++) {
		if (!pending[i].connection)
			return &pending[i];
		if (goes_before(&pending[i], first))
			first = &pending[i];
	}
	rd_server_reconnect_receive(server, (int)(first - pending), now_ms);
	rd_connection_close(&first->connection);
	return first;
}

/* A RESUME that has come is read at once, so that a crowd cannot come between. */
void rd_server_reconnect_accept(struct rd_server *server, int64_t now_ms)
{
	/* A bounded number at a time, so that a crowd does not keep the others waiting. */
	for (int i = 0; i < RD_PENDING_MAX; i++) {
		int fd = rd_accept(server->reconnect.listen_fd);
		struct rd_pending *pending;

		if (fd < 0 && rd_lacks_resources(errno))
			listener_rests(server, now_ms + RD_RECONNECT_MOST_MS);
		if (fd < 0)
			return;
		pending = find_room(server, now_ms);
		rd_socket_tune(fd, server->settings->unreachable_ms);
		pending->until_ms = now_ms + RD_PENDING_MS;
		pending->connection = rd_connection_open(server->epoll_fd, fd,
			server->reconnect.pending_mark +
				(uint64_t)(pending - server->reconnect.pending),
			EPOLLIN, server->settings, true);
		if (!pending->connection)
			continue;
		pending->connection->in_most = RD_RESUME_FRAME;
		rd_server_reconnect_receive(
			server, (int)(pending - server->reconnect.pending), now_ms);
	}
}

/* ---- Serving ------------------------------------------------------------------------------- */

void rd_server_reconnect_serve(struct rd_server *server, int64_t now_ms)
{
	struct rd_server_reconnect *reconnect = &server->reconnect;

	if (reconnect->port == 0)
		return;
	if (reconnect->rest_ms && now_ms >= reconnect->rest_ms)
		listener_rests(server, 0);
	for (int i = 0; i < RD_PENDING_MAX; i++)
		if (reconnect->pending[i].connection && now_ms >= reconnect->pending[i].until_ms)
			rd_connection_close(&reconnect->pending[i].connection);
	for (int i = 0; i < rd_coordinator_connection_count(server->coordinator); i++)
		serve_outage(server, i, now_ms);
}

int64_t rd_server_reconnect_deadline(const struct rd_server *server)
{
	const struct rd_server_reconnect *reconnect = &server->reconnect;
	int64_t deadline = reconnect->rest_ms ? reconnect->rest_ms : RD_NEVER;

	if (reconnect->port == 0)
		return RD_NEVER;
	for (int i = 0; i < RD_PENDING_MAX; i++)
		if (reconnect->pending[i].connection)
			deadline = rd_sooner(deadline, reconnect->pending[i].until_ms);
	for (int i = 0; i < rd_coordinator_connection_count(server->coordinator); i++)
		if (reconnect->outages[i].error)
			deadline = rd_sooner(deadline, rd_sooner(reconnect->outages[i].until_ms,
							       reconnect->outages[i].probe_ms));
	return deadline;
}
