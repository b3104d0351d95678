#include "run/nodes/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/port.h"
#include "net/codec.h"
#include "net/socket.h"
#include "run/base/deadline.h"
#include "run/base/memory.h"
#include "run/nodes/endpoint.h"

/* A connection that sends no HELLO for this long is closed. */
#define HELLO_MS 10000
/* A survivor may be here before this agent has lost the same leader. */
#define HOLD_MS 2000

/* ---- Clients --------------------------------------------------------------------------------- */

static void remove_client(struct server *server, int at)
{
	struct client *client = server->clients[at];

	peer_close(&client->peer);
	free(client);
	server->clients[at] = server->clients[--server->count];
}

/* The last message that it gets. */
static void send_last(struct client *client, const struct message *message)
{
	client->id = 0;
	client->held = false;
	peer_send(&client->peer, message);
	peer_end(&client->peer);
}

static void send_on(struct server *server, struct client *client)
{
	struct message message = { .type = MESSAGE_MOVED, .moved.leader = server->leader };

	send_last(client, &message);
}

/* ---- The meeting ---------------------------------------------------------------------------- */

static void send_member(void *context, int id, const struct message *message)
{
	struct server *server = context;

	if (id == server->self) {
		server->inbox = memory_grow(server->inbox, server->inbox_count,
			&server->inbox_capacity, sizeof(*server->inbox));
		server->inbox[server->inbox_count++] = *message;
		return;
	}
	for (int i = 0; i < server->count; i++) {
		struct client *client = server->clients[i];

		if (client->id != id)
			continue;
		if (message->type == MESSAGE_REFUSED ||
			(message->type == MESSAGE_STOP && message->stop.ends))
			send_last(client, message);
		else
			peer_send(&client->peer, message);
		return;
	}
}

/* Other nodes reach this one where one of them has, unless that was this node itself. */
static void note_own_address(struct server *server, const struct client *client)
{
	struct sockaddr_storage here;
	char text[ADDRESS_SIZE];

	if (rd_local_address_get(&here, client->peer.connection.wire.fd))
		return;
	endpoint_text((struct sockaddr *)&here, text);
	if (!endpoint_is_loopback(text))
		memcpy(server->meeting.address, text, sizeof(text));
}

static void admit(struct server *server, struct client *client)
{
	client->held = false;
	client->id = ++server->last_id;
	note_own_address(server, client);
	meeting_hello(
		&server->meeting, client->id, &client->hello, client->peer.address, rd_clock_ms());
}

void server_lead(struct server *server, const struct rules *rules, const struct hello *own,
	const struct world *last)
{
	struct rules ours = *rules;
	int64_t now_ms = rd_clock_ms();

	ours.send = send_member;
	ours.context = server;
	server->state = SERVER_LEADS;
	server->moved = false;
	server->self = ++server->last_id;
	meeting_init(&server->meeting, &ours, server->self, now_ms);
	if (last)
		meeting_take_over(&server->meeting, last, now_ms);
	meeting_hello(&server->meeting, server->self, own, rd_loopback(), now_ms);
	for (int i = 0; i < server->count; i++)
		if (server->clients[i]->held)
			admit(server, server->clients[i]);
}

static void close_meeting(struct server *server)
{
	if (server->state == SERVER_LEADS)
		meeting_finish(&server->meeting);
	server->self = 0;
	server->inbox_count = 0;
}

void server_send_on(struct server *server, const struct place *leader)
{
	close_meeting(server);
	server->state = SERVER_SENDS_ON;
	server->moved = false;
	server->leader = *leader;
	for (int i = 0; i < server->count; i++)
		if (server->clients[i]->id || server->clients[i]->held)
			send_on(server, server->clients[i]);
}

void server_wait(struct server *server)
{
	close_meeting(server);
	server->state = SERVER_WAITS;
	for (int i = 0; i < server->count; i++)
		if (server->clients[i]->held)
			server->clients[i]->held_ms = 0;
}

void server_dismiss(struct server *server)
{
	/* No agent is accepted from here on. */
	if (server->door)
		rd_door_close(server->door);
	server->endpoint_fd = -1;
	if (server->state == SERVER_LEADS)
		server_wait(server);
	for (int i = 0; i < server->count; i++) {
		server->clients[i]->id = 0;
		peer_end(&server->clients[i]->peer);
	}
}

void server_take(struct server *server, const struct message *message)
{
	if (server->state == SERVER_LEADS)
		meeting_take(&server->meeting, server->self, message, rd_clock_ms());
}

bool server_next(struct server *server, struct message *message)
{
	if (server->inbox_count == 0)
		return false;
	*message = server->inbox[0];
	server->inbox_count--;
	memmove(server->inbox, server->inbox + 1,
		(size_t)server->inbox_count * sizeof(*server->inbox));
	return true;
}

/* ---- Messages of clients --------------------------------------------------------------------- */

/* A survivor of the leader that this agent still has may lose it first. */
static void take_hello(struct server *server, struct client *client, const struct hello *hello)
{
	client->hello = *hello;
	if (server->state == SERVER_LEADS) {
		admit(server, client);
	} else if (server->state == SERVER_SENDS_ON && hello->attempts == 0) {
		send_on(server, client);
	} else {
		client->held = true;
		client->held_ms = server->state == SERVER_SENDS_ON ? rd_clock_ms() + HOLD_MS : 0;
	}
}

/* From the leader of this job's meeting, which has found this agent at the endpoint. */
static void take_moved(struct server *server, struct client *client, const char *run_id, int port)
{
	struct message refusal = { .type = MESSAGE_REFUSED };
	bool runs = server->state == SERVER_LEADS && server->meeting.attempts > 0;

	if (server->run_id && strcmp(run_id, server->run_id) == 0 && !runs) {
		if (server->state == SERVER_SENDS_ON)
			return;
		server->moved = true;
		memcpy(server->moved_to.address, client->peer.address,
			sizeof(server->moved_to.address));
		server->moved_to.port = port;
		return;
	}
	snprintf(refusal.reason, sizeof(refusal.reason), "%s",
		runs ? "nodes that have lost each other run this job twice"
		     : "another job is at the endpoint");
	send_last(client, &refusal);
}

/* A connection that has proved itself, and sent its first message. */
static void add_client(struct server *server, struct rd_arrival *arrival)
{
	struct message message;
	struct client *client;

	if (message_decode(&message, arrival->greeting, arrival->greeting_size) <= 0 ||
		(message.type != MESSAGE_HELLO && message.type != MESSAGE_MOVED)) {
		rd_door_reject(server->door, &arrival->wire, "no agent of this version");
		return;
	}
	client = memory_calloc(1, sizeof(*client));
	server->clients = memory_grow(
		server->clients, server->count, &server->capacity, sizeof(*server->clients));
	server->clients[server->count++] = client;
	peer_adopt(&client->peer, &arrival->wire);
	if (message.type == MESSAGE_HELLO)
		take_hello(server, client, &message.hello);
	else
		take_moved(server, client, message.moved.run_id, message.moved.leader.port);
}

/* Removes a client whose connection has ended; its last messages go first. */
static void serve_clients(struct server *server)
{
	struct message message;

	for (int i = server->count - 1; i >= 0; i--) {
		struct client *client = server->clients[i];

		while (peer_next(&client->peer, &message))
			if (client->id)
				meeting_take(&server->meeting, client->id, &message, rd_clock_ms());
		if (!client->peer.lost)
			continue;
		if (client->id)
			meeting_lose(
				&server->meeting, client->id, client->peer.reason, rd_clock_ms());
		remove_client(server, i);
	}
}

/* ---- The loop ------------------------------------------------------------------------------- */

/* Where files lack, the connections wait. */
static void look_at_error(struct server *server)
{
	int error = rd_door_error(server->door, NULL);

	if (rd_is_forbidden(error))
		server->forbidden = error;
	else if (error && !server->has_warned)
		fprintf(stderr, "rondo-run: cannot accept other nodes: %s\n", strerror(error));
	server->has_warned |= error != 0;
}

static void accept_clients(struct server *server)
{
	struct rd_arrival *arrival;

	if (!server->door)
		return;
	rd_door_serve(server->door, rd_clock_ms());
	while ((arrival = rd_door_next(server->door))) {
		add_client(server, arrival);
		free(arrival);
	}
	look_at_error(server);
}

void server_add_polls(struct server *server, struct polls *polls)
{
	polls_add(polls, server->door ? rd_door_fd(server->door) : -1, POLLIN);
	for (int i = 0; i < server->count; i++)
		peer_add_polls(&server->clients[i]->peer, polls);
}

void server_take_polls(struct server *server, const struct polls *polls)
{
	for (int i = 0; i < server->count; i++)
		peer_take_polls(&server->clients[i]->peer, polls);
	accept_clients(server);
	serve_clients(server);
}

int64_t server_deadline(const struct server *server)
{
	int64_t door_ms = server->door ? rd_door_deadline(server->door) : RD_NEVER,
		at = door_ms == RD_NEVER ? 0 : door_ms;

	if (server->state == SERVER_LEADS)
		at = deadline_earlier(at, meeting_deadline(&server->meeting));
	for (int i = 0; i < server->count; i++) {
		at = deadline_earlier(
			at, server->clients[i]->held ? server->clients[i]->held_ms : 0);
		at = deadline_earlier(at, peer_deadline(&server->clients[i]->peer));
	}
	return at;
}

static void check_client(struct server *server, struct client *client, int64_t now_ms)
{
	peer_on_clock(&client->peer, now_ms);
	if (client->held && client->held_ms && now_ms >= client->held_ms)
		send_on(server, client);
}

void server_on_clock(struct server *server, int64_t now_ms)
{
	for (int i = 0; i < server->count; i++)
		check_client(server, server->clients[i], now_ms);
	accept_clients(server);
	if (server->state == SERVER_LEADS)
		meeting_on_clock(&server->meeting, now_ms);
	serve_clients(server);
}

/* ---- Its life ------------------------------------------------------------------------------- */

void server_init(struct server *server, const char *run_id, const struct secret *secret)
{
	*server = (struct server){ .run_id = run_id, .secret = secret, .endpoint_fd = -1 };
}

/* Takes over the listening socket. False: it is closed. */
static bool listen_with(struct server *server, int fd)
{
	struct rd_door_rules rules = { .psk = server->secret->has_psk ? server->secret->psk : NULL,
		.most = RD_DOOR_MOST,
		.greeting_ms = HELLO_MS,
		.greeting_most = MESSAGE_MAX,
		.greeting_size = rd_frame_size };

	if (server->door || rd_door_create(&server->door, &rules) == 0)
		return rd_door_listen(server->door, fd) == 0;
	close(fd);
	return false;
}

void server_open(struct server *server, const struct endpoint *local, int taken)
{
	int fd = endpoint_listen_beside(local, taken);
	int port = rd_port_of(fd);

	if (fd >= 0 && listen_with(server, fd))
		server->own_port = port;
}

void server_open_endpoint(struct server *server, const struct endpoint *local, int port)
{
	server->endpoint_fd = endpoint_listen(local, port);
	if (server->endpoint_fd >= 0 && !listen_with(server, server->endpoint_fd))
		server->endpoint_fd = -1;
}

bool server_is_ending(const struct server *server)
{
	for (int i = 0; i < server->count; i++)
		if (server->clients[i]->peer.ends && !server->clients[i]->peer.lost)
			return true;
	return false;
}

void server_finish(struct server *server)
{
	rd_door_destroy(server->door);
	server->door = NULL;
	server->endpoint_fd = -1;
	while (server->count > 0)
		remove_client(server, server->count - 1);
	close_meeting(server);
	free(server->clients);
	free(server->inbox);
	server->clients = NULL;
	server->inbox = NULL;
}
