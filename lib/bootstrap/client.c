#include "bootstrap/control_ends.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPT_MS 3000 /* for one address to answer */

/* No address can be connected to, now or later; the last one by this error. */
static void give_up(struct rd_client *client, int error)
{
	char address[RD_ADDRESS_SIZE];

	rd_address_print(address, &client->addresses->at[client->addresses->count - 1]);
	rd_participant_end(client->participant, RONDO_UNREACHABLE,
		"rank %d: cannot connect to rank 0 at %s: %s", client->settings->rank, address,
		strerror(error));
}

static struct rd_control_socket *join(struct rd_client *client)
{
	const struct rd_settings *settings = client->settings;
	struct rd_channel *channel =
		rd_channel_open(client->trunks, client->addresses, client->attempt,
			settings->has_psk ? settings->psk : NULL, settings->unreachable_ms);
	struct rd_control_socket *socket =
		channel ? rd_control_socket_join(channel, client->due) : NULL;

	if (socket)
		socket->connecting = true;
	return socket;
}

/* Goes on to the next address. After the last one the attempt has failed with this error. */
static void connect_from(struct rd_client *client, int error, int64_t now_ms)
{
	for (; client->attempt < client->addresses->count; client->attempt++) {
		client->socket =
			client->trunks ? join(client)
				       : rd_control_socket_dial(client->epoll_fd, client->addresses,
						 client->attempt, client->mark, client->settings);
		if (!client->socket) {
			error = errno;
			client->barred += rd_is_permanent(error);
			continue;
		}
		client->attempt_ms = now_ms + ATTEMPT_MS;
		return;
	}
	if (client->barred == client->addresses->count)
		give_up(client, error);
	else
		rd_participant_refused(
			client->participant, error == ECONNREFUSED, strerror(error), now_ms);
}

static void connect_next(struct rd_client *client, int error, int64_t now_ms)
{
	rd_control_socket_close(&client->socket, false);
	client->attempt++;
	connect_from(client, error, now_ms);
}

/* At the address on the way to rank 0. Another attempt may have had another. */
static int open_place(struct rd_client *client)
{
	int error = rd_lineage_place(client->lineage, client->listener, client->settings->rank,
		client->trunks ? NULL : client->local);

	if (!error)
		rd_participant_set_lineage(client->participant, &client->lineage->place);
	return error;
}

static void finish_connecting(struct rd_client *client, int64_t now_ms)
{
	int error = 0, connected = rd_control_socket_connect(
			       client->socket, client->settings->unreachable_ms, &error);

	if (connected < 0)
		connect_next(client, error, now_ms);
	if (connected <= 0)
		return;
	rd_local_address_get(client->local, rd_control_socket_fd(client->socket));
	error = open_place(client);
	if (error)
		rd_participant_report(client->participant, error, client->settings->rank,
			rondo_last_error(), now_ms);
	rd_participant_connected(client->participant, now_ms);
}

void rd_client_lose(struct rd_client *client, int error, int64_t now_ms)
{
	error = rd_control_socket_judge(client->socket, error);
	rd_control_socket_close(&client->socket, error != 0);
	rd_participant_closed(client->participant, error, now_ms);
}

/* True: more may have come. failed: the errno of a write; 0: none has failed. */
static bool receive_once(struct rd_client *client, int failed, int64_t now_ms)
{
	struct rd_control_message message;
	int error, took, got = rd_control_socket_read(client->socket, &error);

	if (got < 0) {
		rd_client_lose(client, failed ? failed : error, now_ms);
		return false;
	}
	while ((took = rd_control_socket_take(client->socket, &message)) > 0)
		rd_participant_take(client->participant, &message, now_ms);
	if (took < 0)
		rd_participant_bad_message(client->participant);
	return got > 0 && took == 0;
}

void rd_client_receive(struct rd_client *client, int64_t now_ms)
{
	if (!client->socket)
		return;
	if (client->socket->connecting)
		finish_connecting(client, now_ms);
	else
		while (receive_once(client, 0, now_ms))
			;
}

/* A verdict may have come before the end. */
static void lose_after_write(struct rd_client *client, int failed, int64_t now_ms)
{
	while (receive_once(client, failed, now_ms))
		;
	if (client->socket)
		rd_client_lose(client, failed, now_ms);
}

void rd_client_drain(struct rd_client *client, int64_t now_ms)
{
	if (client->socket && client->socket->channel)
		rd_channel_look(client->socket->channel);
	rd_client_receive(client, now_ms);
}

void rd_client_forget(struct rd_client *client)
{
	free(client->addresses);
	client->addresses = NULL;
}

/* This rank has given rank 0 up: its last message. */
static void send_verdict(struct rd_client *client)
{
	struct rd_control_message message;
	int error;

	if (!client->socket || client->socket->connecting ||
		!rd_participant_next(client->participant, &message))
		return;
	rd_control_socket_put(client->socket, &message);
	rd_control_socket_flush(client->socket, &error); /* or it is lost with the connection */
}

void rd_client_serve(struct rd_client *client, int64_t now_ms)
{
	struct rd_control_message message;
	int error;

	if (client->socket && client->socket->connecting && now_ms >= client->attempt_ms)
		connect_next(client, ETIMEDOUT, now_ms);
	if (rd_participant_connects(client->participant, now_ms)) {
		client->attempt = client->barred = 0;
		connect_from(client, 0, now_ms);
		if (client->socket && rd_control_socket_is_stirred(client->socket))
			rd_client_receive(client, now_ms);
	}
	if (client->participant->phase >= RD_PARTICIPANT_JOINED)
		rd_client_forget(client);
	if (client->participant->phase == RD_PARTICIPANT_FAILED)
		send_verdict(client);
	if (client->participant->phase == RD_PARTICIPANT_LEFT)
		rd_control_socket_close(&client->socket, false);
	else if (client->participant->phase == RD_PARTICIPANT_FAILED ||
		 rd_participant_spares(client->participant))
		rd_control_socket_close(&client->socket, true);
	while (client->socket && !client->socket->connecting) {
		while (rd_control_socket_has_room(client->socket) &&
			rd_participant_next(client->participant, &message))
			rd_control_socket_put(client->socket, &message);
		if (rd_control_socket_is_flushed(client->socket))
			return;
		if (!rd_control_socket_flush(client->socket, &error))
			lose_after_write(client, error, now_ms);
		else if (!rd_control_socket_is_flushed(client->socket))
			return;
	}
}

bool rd_client_has_sent_goodbye(const struct rd_client *client)
{
	return client->socket && rd_participant_has_said_goodbye(client->participant) &&
	       rd_control_socket_is_flushed(client->socket);
}

int64_t rd_client_deadline(const struct rd_client *client)
{
	return client->socket && client->socket->connecting ? client->attempt_ms : RD_NEVER;
}
