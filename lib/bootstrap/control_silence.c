/*
 * Notices that another host sends nothing: a host or a network that is gone without a word. Between
 * hosts rank 0 sends a heartbeat several times a second, and the rank answers. The kernel
 * tells when the other host's last acknowledged one, or the probe that it sends after a second
 * without any. A stopped process does not matter. For the control thread.
 */
#include "bootstrap/control_state.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/duration.h"
#include "base/log.h"

/* Between two looks, with few ranks: rank 0 hears of each rank as often. */
#define LOOK_MS 250
#define LOOKS 3 /* without an answer: a silence */

/* Ranks whose silence began, or ended, in one look. */
struct news {
	int count, first;
	uint32_t ms; /* of the first's silence */
};

/* At least several times in the bound. */
static int look_ms(const struct rd_control *control)
{
	int most_ms = control->settings.unreachable_ms / 4;
	int ms = LOOK_MS + control->settings.size / 4;

	return ms < most_ms ? ms : most_ms > 0 ? most_ms : 1;
}

/* For how long an end that owes an acknowledgement has sent none; 0: it owes none. */
static int64_t silence_of(const struct rd_control_socket *socket)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	if (getsockopt(rd_control_socket_fd(socket), IPPROTO_TCP, TCP_INFO, &info, &size) ||
		(info.tcpi_unacked == 0 && info.tcpi_probes == 0))
		return 0;
	return info.tcpi_last_ack_recv;
}

static void add_news(struct news *news, int rank, uint32_t ms)
{
	if (news->count++)
		return;
	news->first = rank;
	news->ms = ms;
}

static void log_news(const struct rd_control *control, const struct news *news, bool began)
{
	const struct rd_member *members = control->participant->members;
	char name[RD_RANK_NAME_SIZE], more[32] = "", silence[RD_DURATION_SIZE],
				      bound[RD_DURATION_SIZE];

	/* With so short a bound, the verdict comes at once. */
	if (news->count == 0 || control->settings.unreachable_ms < 2 * LOOKS * look_ms(control))
		return;
	rd_place_name(&members[news->first].place, news->first, name);
	if (news->count > 1)
		snprintf(more, sizeof(more), " and %d more", news->count - 1);
	rd_duration(silence, news->ms);
	if (began)
		rd_log(RD_WARN, RD_BOOTSTRAP,
			"the host of %s%s has not answered for %s: lost after %s "
			"(RONDO_UNREACHABLE_MS)",
			name, more, silence, rd_duration(bound, control->settings.unreachable_ms));
	else
		rd_log(RD_WARN, RD_BOOTSTRAP, "the host of %s%s answers again, after %s", name,
			more, silence);
}

/* The rank at the other end of a connection of this number; -1: none. */
static int rank_at(const struct rd_control *control, int index)
{
	return control->server.coordinator ? control->server.coordinator->connections[index].rank
					   : 0;
}

static struct rd_control_socket *connection_at(const struct rd_control *control, int index)
{
	if (control->server.coordinator)
		return control->server.coordinator->connections[index].socket;
	return control->client.socket && control->client.socket->connecting
		       ? NULL
		       : control->client.socket;
}

static int connection_count(const struct rd_control *control)
{
	return control->server.coordinator ? control->server.coordinator->connection_count : 1;
}

static void lose(struct rd_control *control, int index, int64_t now_ms)
{
	if (control->server.coordinator)
		rd_server_lose(&control->server, index, ETIMEDOUT, now_ms);
	else
		rd_client_lose(&control->client, ETIMEDOUT, now_ms);
}

/* Whether one is to another host. */
static bool look_at_all(struct rd_control *control, bool late, int64_t now_ms)
{
	struct news began = { 0 }, ended = { 0 };
	bool any = false;

	for (int i = 0; i < connection_count(control); i++) {
		struct rd_control_socket *connection = connection_at(control, i);
		int64_t silent_ms, before_ms = connection ? connection->silent_ms : 0;
		int rank = rank_at(control, i);

		if (!connection || rank < 0 || connection->near)
			continue;
		any = true;
		silent_ms = silence_of(connection);
		connection->silent_ms =
			silent_ms < LOOKS * look_ms(control) ? 0 : (uint32_t)silent_ms;
		if (connection->silent_ms && !before_ms)
			add_news(&began, rank, connection->silent_ms);
		else if (before_ms && !connection->silent_ms)
			add_news(&ended, rank, (uint32_t)before_ms);
		/* The next look would be later than the bound. Where this one is late, this process
		   or this host was stopped, and answers may be on their way. */
		if (!late && silent_ms >= control->settings.unreachable_ms - look_ms(control))
			lose(control, i, now_ms);
		else if (control->server.coordinator)
			rd_coordinator_beat(control->server.coordinator, i);
		else
			rd_participant_beat(control->participant, now_ms - 2 * look_ms(control));
	}
	log_news(control, &began, true);
	log_news(control, &ended, false);
	return any;
}

void rd_control_look(struct rd_control *control, int64_t now_ms)
{
	bool late;

	if (control->participant->phase != RD_PARTICIPANT_OPEN || now_ms < control->look_ms)
		return;
	late = now_ms >= control->look_ms + look_ms(control);
	control->look_ms =
		look_at_all(control, late, now_ms) ? now_ms + look_ms(control) : RD_NEVER;
}

int64_t rd_control_look_deadline(const struct rd_control *control)
{
	return control->participant->phase == RD_PARTICIPANT_OPEN ? control->look_ms : RD_NEVER;
}

void rd_control_silent_ranks(const struct rd_control *control,
	void (*see)(int rank, uint32_t silent_ms, void *argument), void *argument)
{
	for (int i = 0; i < connection_count(control); i++) {
		const struct rd_control_socket *connection = connection_at(control, i);

		if (connection && connection->silent_ms && rank_at(control, i) >= 0)
			see(rank_at(control, i), connection->silent_ms, argument);
	}
}
