#include "transports/tcp/arrivals.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "net/socket.h"
#include "transports/tcp/connection.h"
#include "transports/tcp/connector.h"

#define HELLO_MS 10000
/* Connections that wait for a peer fail when none could be accepted for so long. */
#define ACCEPT_MS 1000

static long hello_size(const unsigned char *bytes, size_t size)
{
	(void)bytes;
	(void)size;
	return sizeof(struct rd_tcp_hello);
}

/* No sign of life of a peer: a connection that has taken a wire counts by itself. */
static bool handle(void *station)
{
	rd_tcp_arrivals_serve(station);
	return false;
}

/* The station may outlive the settings, and so has a copy of the secret. */
int rd_tcp_arrivals_start(struct rd_tcp_station *station, const struct rd_local *local)
{
	const struct rd_settings *settings = local->settings;
	struct rd_door_rules rules = {
		.psk = settings->has_psk ? station->psk : NULL,
		.takes_plain = true,
		.strips = !settings->encrypt,
		.most = RD_DOOR_MOST + local->size * settings->channels,
		.greeting_ms = HELLO_MS,
		.greeting_most = sizeof(struct rd_tcp_hello),
		.greeting_size = hello_size,
	};
	int err;

	memcpy(station->psk, settings->psk, sizeof(station->psk));
	err = rd_door_create(&station->door, &rules);
	if (err)
		return err;
	station->early.most = rules.most;
	station->door_source = (struct rd_event_source){ handle, station };
	if (rd_event_watch(station->epoll_fd, EPOLL_CTL_ADD, rd_door_fd(station->door), EPOLLIN,
		    &station->door_source))
		return rd_fail_errno("cannot watch a socket");
	return 0;
}

static struct rd_tcp_connector *find(const struct rd_tcp_station *station, uint64_t comm_id)
{
	struct rd_tcp_connector *connector = station->connectors;

	while (connector && connector->local->comm_id != comm_id)
		connector = connector->next;
	return connector;
}

/* A peer may be quicker to begin in a comm. A connector that has the station alone is the only one
   that will ever begin. */
static bool may_be_early(const struct rd_tcp_station *station)
{
	return station->shared || !station->connectors;
}

static void admit(struct rd_tcp_station *station, struct rd_arrival *arrival)
{
	struct rd_tcp_connector *connector;
	struct rd_tcp_hello hello;

	memcpy(&hello, arrival->greeting, sizeof(hello));
	connector = find(station, hello.comm_id);
	if (!rd_tcp_hello_valid(&hello) ||
		!(connector ? rd_tcp_hello_fits(&hello, connector->local) : may_be_early(station)))
		rd_door_reject(station->door, &arrival->wire, "not a rank of this job");
	else if (!connector || !rd_tcp_connections_admit(connector, &arrival->wire, &hello))
		rd_tcp_early_keep(
			&station->early, station->door, &arrival->wire, &hello, connector != NULL);
}

static void look_at_error(struct rd_tcp_station *station, int64_t now_ms)
{
	int64_t since_ms;
	int error = rd_door_error(station->door, &since_ms);

	if (error && !station->warned)
		rd_log(RD_WARN, RD_NET, "NET/Socket : rank %d cannot accept a connection: %s",
			station->rank, strerror(error));
	station->warned = error != 0;
	if (error && (rd_is_forbidden(error) || now_ms - since_ms >= ACCEPT_MS))
		rd_tcp_connections_fail_awaited(station, error);
}

void rd_tcp_arrivals_serve(struct rd_tcp_station *station)
{
	int64_t now_ms = rd_clock_ms(), deadline_ms;
	struct rd_arrival arrival;

	rd_door_serve(station->door, now_ms);
	while (rd_door_next(station->door, &arrival))
		admit(station, &arrival);
	look_at_error(station, now_ms);
	deadline_ms = rd_door_deadline(station->door);
	if (deadline_ms != RD_NEVER)
		rd_tcp_timer_request(&station->timer, deadline_ms);
}
