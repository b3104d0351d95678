#include "bootstrap/control_silence.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/duration.h"
#include "base/log.h"

#define LOOK_MS 250

/* Ranks whose silence began, or ended, in one look. */
struct news {
	int count, first;
	uint32_t ms; /* of the first's silence */
};

/* For how long no packet has come of an end that owes one; 0: it owes none. */
static uint32_t silence_of(const struct rd_connection *connection)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	if (getsockopt(connection->wire.fd, IPPROTO_TCP, TCP_INFO, &info, &size) ||
		(info.tcpi_unacked == 0 && info.tcpi_probes == 0) ||
		info.tcpi_last_ack_recv < RD_SILENCE_MS)
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
	const struct rd_member *members = rd_participant_members(control->participant);
	char name[RD_RANK_NAME_SIZE], more[32] = "", silence[RD_DURATION_SIZE],
				      bound[RD_DURATION_SIZE];

	if (news->count == 0)
		return;
	rd_member_name(&members[news->first], news->first, name);
	if (news->count > 1)
		snprintf(more, sizeof(more), " and %d more", news->count - 1);
	rd_duration(silence, news->ms);
	if (began)
		rd_log(RD_WARN, RD_BOOTSTRAP,
			"no packet from the host of %s%s for %s: lost after %s "
			"(RONDO_UNREACHABLE_MS)",
			name, more, silence, rd_duration(bound, control->settings.unreachable_ms));
	else
		rd_log(RD_WARN, RD_BOOTSTRAP, "packets from the host of %s%s come again, after %s",
			name, more, silence);
}

/* The rank at the other end of a connection of this number; -1: none. */
static int rank_at(const struct rd_control *control, int index)
{
	return control->server.coordinator
		       ? rd_coordinator_rank_at(control->server.coordinator, index)
		       : 0;
}

static struct rd_connection *connection_at(const struct rd_control *control, int index)
{
	if (control->server.coordinator)
		return control->server.connections[index];
	return control->client.connecting ? NULL : control->client.connection;
}

static int connection_count(const struct rd_control *control)
{
	return control->server.coordinator
		       ? rd_coordinator_connection_count(control->server.coordinator)
		       : 1;
}

/* Whether one is to another host. */
static bool look_at_all(struct rd_control *control)
{
	struct news began = { 0 }, ended = { 0 };
	bool any = false;

	for (int i = 0; i < connection_count(control); i++) {
		struct rd_connection *connection = connection_at(control, i);
		uint32_t before_ms = connection ? connection->silent_ms : 0;
		int rank = rank_at(control, i);

		if (!connection || rank < 0 || rd_socket_is_near(connection->wire.fd))
			continue;
		any = true;
		connection->silent_ms = silence_of(connection);
		if (connection->silent_ms && !before_ms)
			add_news(&began, rank, connection->silent_ms);
		else if (before_ms && !connection->silent_ms)
			add_news(&ended, rank, before_ms + LOOK_MS);
	}
	log_news(control, &began, true);
	log_news(control, &ended, false);
	return any;
}

void rd_control_look(struct rd_control *control, int64_t now_ms)
{
	if (rd_participant_phase(control->participant) != RD_PARTICIPANT_OPEN ||
		now_ms < control->look_ms)
		return;
	/* With so short a bound, the verdict comes first. */
	control->look_ms = control->settings.unreachable_ms > RD_SILENCE_MS && look_at_all(control)
				   ? now_ms + LOOK_MS
				   : RD_NEVER;
}

void rd_control_silent_ranks(const struct rd_control *control,
	void (*see)(int rank, uint32_t silent_ms, void *argument), void *argument)
{
	for (int i = 0; i < connection_count(control); i++) {
		const struct rd_connection *connection = connection_at(control, i);

		if (connection && connection->silent_ms && rank_at(control, i) >= 0)
			see(rank_at(control, i), connection->silent_ms, argument);
	}
}
