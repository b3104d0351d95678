#include "bootstrap/control_ends.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "net/codec.h"
#include "net/socket.h"

/* ---- Life ---------------------------------------------------------------------------------- */

/* Pending connections are for the next comm, which may share the listening socket: they come
   again. */
static void close_door(struct rd_server *server)
{
	if (!server->door)
		return;
	/* A child may hold a copy of the door's epoll. */
	epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, rd_door_fd(server->door), NULL);
	rd_door_destroy(server->door);
	server->door = NULL;
}

static int make_door(struct rd_server *server)
{
	const struct rd_settings *settings = server->settings;
	struct rd_door_rules rules = { .psk = settings->has_psk ? settings->psk : NULL,
		.most = RD_PENDING_MAX,
		.greeting_ms = RD_PENDING_MS,
		.greeting_most = RD_FRAME_MAX,
		.greeting_size = rd_frame_size };

	return rd_door_create(&server->door, &rules);
}

void rd_server_begin(struct rd_server *server, uint64_t mark)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = mark };
	int error;

	if (server->listen_fd < 0)
		return;
	error = rd_door_listen(server->door, server->listen_fd);
	server->listen_fd = -1;
	if (!error && epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, rd_door_fd(server->door), &event))
		error = rd_fail_errno("cannot watch a listening socket");
	if (error)
		rd_coordinator_fail(server->coordinator, error, rondo_last_error());
}

int rd_server_start(struct rd_server *server, const struct rd_settings *settings,
	const char *address, uint64_t group, int64_t now_ms)
{
	struct rd_comm_id id;
	int error;

	server->settings = settings;
	/* Early in a boot this waits for the kernel's first entropy. */
	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return rd_fail_errno("no random number for the comm");
	/* Elsewhere 0 stands for an unknown comm. */
	id.number = group ? group : id.number + (id.number == 0);
	error = rd_coordinator_create(&server->coordinator, settings, address, &id, now_ms);
	if (error)
		return error;
	return server->listen_fd < 0 ? 0 : make_door(server);
}

static struct rd_control_socket **socket_at(const struct rd_server *server, int index)
{
	return &server->coordinator->connections[index].socket;
}

void rd_server_close(struct rd_server *server)
{
	struct rd_coordinator *coordinator = server->coordinator;
	bool decided = coordinator && rd_coordinator_decided(coordinator);

	for (int i = 0; coordinator && i < coordinator->connection_count; i++)
		rd_control_socket_close(socket_at(server, i), !decided);
}

void rd_server_finish(struct rd_server *server)
{
	rd_server_close(server);
	close_door(server);
	if (server->listen_fd >= 0)
		close(server->listen_fd);
	rd_coordinator_destroy(server->coordinator);
}

/* ---- Connections --------------------------------------------------------------------------- */

void rd_server_lose(struct rd_server *server, int index, int error, int64_t now_ms)
{
	struct rd_control_socket **socket = socket_at(server, index);

	error = rd_control_socket_judge(*socket, error);
	rd_control_socket_close(socket, error != 0);
	rd_coordinator_closed(server->coordinator, index, error, now_ms);
}

/* True: more may have come. failed: the errno of a write; 0: none has failed. */
static bool receive_once(struct rd_server *server, int index, int failed, int64_t now_ms)
{
	struct rd_control_socket *socket = *socket_at(server, index);
	struct rd_control_message message;
	int error, took, got = rd_control_socket_read(socket, &error);

	if (got < 0) {
		rd_server_lose(server, index, failed ? failed : error, now_ms);
		return false;
	}
	while ((took = rd_control_socket_take(socket, &message)) > 0)
		rd_coordinator_take(server->coordinator, index, &message, now_ms);
	if (took < 0)
		rd_coordinator_bad_message(server->coordinator, index, now_ms);
	return got > 0 && took == 0;
}

void rd_server_receive(struct rd_server *server, int index, int64_t now_ms)
{
	if (*socket_at(server, index))
		while (receive_once(server, index, 0, now_ms))
			;
}

/* A verdict may have come before the end. This process may have been stopped since its last
   turn. */
static void lose_after_write(struct rd_server *server, int index, int failed)
{
	int64_t now_ms = rd_clock_ms();

	while (receive_once(server, index, failed, now_ms))
		;
	if (*socket_at(server, index))
		rd_server_lose(server, index, failed, now_ms);
}

static void serve_connection(struct rd_server *server, int index, int64_t now_ms)
{
	struct rd_control_socket *socket = *socket_at(server, index);
	struct rd_control_message message;
	int error;

	while (socket) {
		while (rd_control_socket_has_room(socket) &&
			rd_coordinator_next(server->coordinator, index, &message))
			rd_control_socket_put(socket, &message);
		if (rd_control_socket_is_flushed(socket))
			break;
		if (!rd_control_socket_flush(socket, &error)) {
			lose_after_write(server, index, error);
			return;
		}
		if (!rd_control_socket_is_flushed(socket))
			break;
	}
	if (socket && server->coordinator->connections[index].dropped)
		rd_server_lose(server, index, 0, now_ms);
}

static bool is_acknowledged(const struct rd_control_socket *socket)
{
	int bytes;

	return socket->near || ioctl(rd_control_socket_fd(socket), SIOCOUTQ, &bytes) || bytes == 0;
}

bool rd_server_is_flushed(const struct rd_server *server, bool acknowledged)
{
	for (int i = 0; i < server->coordinator->connection_count; i++) {
		const struct rd_control_socket *socket = *socket_at(server, i);

		if (socket && (!rd_control_socket_is_flushed(socket) ||
				      (acknowledged && !is_acknowledged(socket))))
			return false;
	}
	return true;
}

/* ---- The door ------------------------------------------------------------------------------ */

/* The number of a new connection; where none is free, the oldest that was refused gives way. */
static int open_number(struct rd_server *server, int64_t now_ms)
{
	int index = rd_coordinator_open(server->coordinator, now_ms), refused;

	if (index >= 0)
		return index;
	refused = rd_coordinator_oldest_refused(server->coordinator);
	if (refused < 0)
		return -1;
	rd_server_lose(server, refused, 0, now_ms);
	return rd_coordinator_open(server->coordinator, now_ms);
}

static void take_greeting(
	struct rd_server *server, int index, const struct rd_arrival *arrival, int64_t now_ms)
{
	struct rd_control_message message;

	if (rd_control_decode(arrival->greeting, arrival->greeting_size, &message) > 0)
		rd_coordinator_take(server->coordinator, index, &message, now_ms);
	else
		rd_coordinator_bad_message(server->coordinator, index, now_ms);
}

static void adopt(struct rd_server *server, struct rd_arrival *arrival, int64_t now_ms)
{
	int index = open_number(server, now_ms);

	if (index < 0) {
		rd_wire_close(&arrival->wire);
		return;
	}
	rd_socket_tune(arrival->wire.fd, server->settings->unreachable_ms);
	*socket_at(server, index) =
		rd_control_socket_adopt(server->epoll_fd, &arrival->wire, (uint64_t)index, EPOLLIN);
	if (!*socket_at(server, index)) {
		rd_coordinator_closed(server->coordinator, index, 0, now_ms);
		return;
	}
	take_greeting(server, index, arrival, now_ms);
	rd_server_receive(server, index, now_ms);
}

void rd_server_join(
	struct rd_server *server, struct rd_channel *channel, _Atomic bool *due, int64_t now_ms)
{
	int index = open_number(server, now_ms);

	if (index < 0) {
		rd_channel_close(channel, false);
		return;
	}
	*socket_at(server, index) = rd_control_socket_join(channel, due);
	if (*socket_at(server, index))
		rd_server_receive(server, index, now_ms);
	else
		rd_coordinator_closed(server->coordinator, index, 0, now_ms);
}

void rd_server_look(struct rd_server *server, int64_t now_ms)
{
	for (int i = 0; i < server->coordinator->connection_count; i++)
		if (*socket_at(server, i) && rd_control_socket_is_stirred(*socket_at(server, i)))
			rd_server_receive(server, i, now_ms);
}

/* Where rank 0 may not accept, or is out of descriptors and no pending connection holds one, no
   rank can join. */
static void look_at_error(struct rd_server *server)
{
	errno = rd_door_error(server->door, NULL);
	if (errno == 0)
		return;
	rd_fail_errno("rank 0 cannot accept a connection");
	rd_coordinator_fail(server->coordinator, RONDO_SYSTEM, rondo_last_error());
}

void rd_server_accept(struct rd_server *server, int64_t now_ms)
{
	struct rd_arrival *arrival;
	unsigned foreign;

	if (!server->door)
		return;
	rd_door_serve(server->door, now_ms);
	while (rd_coordinator_listening(server->coordinator) &&
		(arrival = rd_door_next(server->door))) {
		adopt(server, arrival, now_ms);
		free(arrival);
	}
	foreign = rd_door_foreign(server->door);
	server->coordinator->foreign += foreign - server->foreign;
	server->foreign = foreign;
	if (rd_coordinator_listening(server->coordinator))
		look_at_error(server);
}

int64_t rd_server_deadline(const struct rd_server *server)
{
	return server->door ? rd_door_deadline(server->door) : RD_NEVER;
}

/* ---- Serving ------------------------------------------------------------------------------- */

/* Rank 0's participant and the coordinator, in turn until neither has a message left. */
static void exchange_messages(
	struct rd_server *server, struct rd_participant *participant, int64_t now_ms)
{
	struct rd_control_message message;
	bool moved;

	do {
		moved = false;
		while (rd_participant_next(participant, &message)) {
			rd_coordinator_take(server->coordinator, 0, &message, now_ms);
			moved = true;
		}
		while (rd_coordinator_next(server->coordinator, 0, &message)) {
			rd_participant_take(participant, &message, now_ms);
			moved = true;
		}
	} while (moved);
}

/* A warning where no call has waited as long before: ranks that compute for long make all calls
   slow, and a hang still shows among them. */
static void log_slow_call(struct rd_server *server)
{
	char text[RD_REASON_SIZE];
	uint32_t waited_ms = rd_coordinator_slow_call(server->coordinator, text);
	bool warns;

	if (waited_ms == 0)
		return;
	warns = rd_coordinator_is_next_line(waited_ms, server->warned_ms);
	rd_log(warns ? RD_WARN : RD_INFO, RD_COLL, "slow call: %s", text);
	if (warns)
		server->warned_ms = waited_ms;
}

void rd_server_serve(struct rd_server *server, struct rd_participant *participant, int64_t now_ms)
{
	if (rd_participant_connects(participant, now_ms)) {
		rd_coordinator_open(server->coordinator, now_ms);
		rd_participant_connected(participant, now_ms);
		server->joined = true;
	}
	if (server->joined)
		exchange_messages(server, participant, now_ms);
	/* From now on another connection may get the number 0. */
	if (server->joined && participant->phase >= RD_PARTICIPANT_LEFT) {
		rd_coordinator_closed(server->coordinator, 0, 0, now_ms);
		server->joined = false;
	}
	if (now_ms >= rd_server_deadline(server))
		rd_server_accept(server, now_ms);
	/* The listening socket closes before any rank learns that all are here: a rank that
	   connects then means the next comm, and must not be accepted into this one. */
	if (!rd_coordinator_listening(server->coordinator))
		close_door(server);
	for (int i = 0; i < server->coordinator->connection_count; i++)
		serve_connection(server, i, now_ms);
	log_slow_call(server);
}
