#include "bootstrap/client_reconnect.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "bootstrap/client.h"
#include "bootstrap/reconnect.h"

static void close_attempt(struct rd_client *client)
{
	rd_connection_close(&client->reconnect.attempt);
	client->reconnect.connecting = false;
}

void rd_client_reconnect_stop(struct rd_client *client)
{
	close_attempt(client);
	client->reconnect.error = 0;
}

static bool may_go_on(const struct rd_client *client)
{
	enum rd_participant_phase phase = rd_participant_phase(client->participant);

	/* Silence has lasted as long as it may. */
	return (phase == RD_PARTICIPANT_JOINED || phase == RD_PARTICIPANT_OPEN) &&
	       rd_participant_port(client->participant) > 0 &&
	       !rd_means_silence(rd_connection_lost(client->connection));
}

int rd_client_reconnect_begin(struct rd_client *client, int64_t now_ms)
{
	struct rd_client_reconnect *reconnect = &client->reconnect;
	int error = rd_connection_lost(client->connection);

	if (!may_go_on(client) || rd_connection_leave(client->connection, &reconnect->received))
		return error;
	reconnect->error = error;
	reconnect->since_ms = reconnect->next_ms = now_ms;
	reconnect->until_ms = now_ms + client->settings->unreachable_ms;
	reconnect->pause_ms = 0;
	if (rd_log_is_due(++reconnect->count))
		rd_log(RD_WARN, RD_BOOTSTRAP,
			"rank %d lost its control connection (%s, %u so far): it goes on over "
			"another",
			client->settings->rank, strerror(error), reconnect->count);
	return 0;
}

/* The attempt has failed with this errno, or 0 for an end of file. */
static int fail_attempt(struct rd_client *client, int error, int64_t now_ms)
{
	struct rd_client_reconnect *reconnect = &client->reconnect;

	close_attempt(client);
	reconnect->pause_ms = rd_reconnect_pause_ms(reconnect->pause_ms);
	reconnect->next_ms = now_ms + reconnect->pause_ms;
	/* Rank 0 has ended. */
	return error == ECONNREFUSED ? ECONNRESET : 0;
}

static int begin_attempt(struct rd_client *client, int64_t now_ms)
{
	struct rd_client_reconnect *reconnect = &client->reconnect;
	struct rd_addresses rank_0;
	int fd;

	rd_address_at_port(&rank_0, &client->addresses, client->attempt,
		rd_participant_port(client->participant));
	fd = rd_connect_start(&rank_0, 0);
	if (fd >= 0)
		reconnect->attempt = rd_connection_open(client->epoll_fd, fd,
			client->reconnect_mark, EPOLLOUT, client->settings, false);
	reconnect->connecting = true;
	reconnect->next_ms = now_ms + RD_RECONNECT_ATTEMPT_MS;
	if (!reconnect->attempt)
		return fail_attempt(client, fd < 0 ? errno : ENOMEM, now_ms);
	reconnect->attempt->in_most = RD_RESUME_FRAME;
	return 0;
}

static int ask(struct rd_client *client, int64_t now_ms)
{
	struct rd_client_reconnect *reconnect = &client->reconnect;
	int error = rd_connect_finish(reconnect->attempt->wire.fd);
	struct rd_control_message message = { .kind = RD_CONTROL_RESUME,
		.resume = { .comm_id = rd_participant_comm_id(client->participant),
			.rank = client->settings->rank,
			.attempt = ++reconnect->attempts,
			.received = reconnect->received } };

	if (error)
		return fail_attempt(client, error, now_ms);
	reconnect->connecting = false;
	rd_socket_tune(reconnect->attempt->wire.fd, client->settings->unreachable_ms);
	rd_connection_watch(reconnect->attempt, EPOLLIN);
	rd_connection_put(reconnect->attempt, &message);
	return 0;
}

static int go_on(struct rd_client *client, const struct rd_control_message *answer, int64_t now_ms)
{
	struct rd_client_reconnect *reconnect = &client->reconnect;

	/* Rank 0 has given this rank up. */
	if (answer->kind == RD_CONTROL_RESUME && answer->resume.comm_id == 0)
		return RD_NOT_RESUMED;
	if (answer->kind != RD_CONTROL_RESUME ||
		answer->resume.comm_id != rd_participant_comm_id(client->participant) ||
		answer->resume.rank != client->settings->rank ||
		rd_connection_go_on(client->connection, &reconnect->attempt, RD_RESUME_ASKED,
			answer->resume.received))
		return EPROTO;
	reconnect->error = 0;
	rd_log(RD_INFO, RD_BOOTSTRAP, "rank %d goes on with rank 0 after %lld ms",
		client->settings->rank, (long long)(now_ms - reconnect->since_ms));
	return 0;
}

static int take_answer(struct rd_client *client, int64_t now_ms)
{
	struct rd_connection *attempt = client->reconnect.attempt;
	struct rd_control_message message;
	int error, got, took;

	if (attempt->out_size > 0 && !rd_connection_flush(attempt, &error))
		return fail_attempt(client, error ? error : ECONNRESET, now_ms);
	do {
		got = rd_connection_read(attempt, &error);
		took = rd_connection_take(attempt, &message);
	} while (got > 0 && took == 0);
	if (took > 0)
		return go_on(client, &message, now_ms);
	if (took < 0 || got < 0)
		return fail_attempt(client, took < 0 ? EPROTO : error, now_ms);
	return 0;
}

int rd_client_reconnect_receive(struct rd_client *client, int64_t now_ms)
{
	int error = 0;

	if (client->reconnect.attempt && client->reconnect.connecting)
		error = ask(client, now_ms);
	if (!error && client->reconnect.attempt && !client->reconnect.connecting)
		error = take_answer(client, now_ms);
	return error;
}

int rd_client_reconnect_serve(struct rd_client *client, int64_t now_ms)
{
	struct rd_client_reconnect *reconnect = &client->reconnect;

	if (!reconnect->error)
		return 0;
	if (now_ms >= reconnect->until_ms)
		return RD_NOT_RESUMED;
	if (now_ms < reconnect->next_ms)
		return 0;
	return reconnect->attempt ? fail_attempt(client, ETIMEDOUT, now_ms)
				  : begin_attempt(client, now_ms);
}

int64_t rd_client_reconnect_deadline(const struct rd_client *client)
{
	const struct rd_client_reconnect *reconnect = &client->reconnect;

	return reconnect->error ? rd_sooner(reconnect->next_ms, reconnect->until_ms) : RD_NEVER;
}
