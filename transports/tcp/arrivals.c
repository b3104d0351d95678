#include "transports/tcp/arrivals.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "net/socket.h"
#include "transports/shared.h"
#include "transports/tcp/connection.h"
#include "transports/tcp/connector.h"

/* Connections that wait for a peer fail when none could be accepted for so long. */
#define ACCEPT_MS 1000

/* No sign of life of a peer: a connection that has taken a wire counts by itself. */
static bool handle(void *station)
{
	rd_tcp_arrivals_serve(station);
	return false;
}

/* The station may outlive the settings. */
int rd_tcp_arrivals_start(struct rd_tcp_station *station, const struct rd_local *local)
{
	const struct rd_settings *settings = local->settings;
	struct rd_shared *shared = station->shared;
	int err;

	station->strips = !settings->encrypt;
	station->early.most = RD_DOOR_MOST + local->size * settings->channels;
	err = shared ? rd_shared_listen(shared, &station->listener, settings)
		     : rd_listener_create(&station->listener, settings);
	if (err)
		return err;
	station->come = rd_arrivals_open(station->listener, RD_ARRIVALS_TCP, 0, station->early.most,
		shared ? shared->wake_fd : -1);
	if (!station->come)
		return RONDO_MEMORY;
	station->listener_source = (struct rd_event_source){ handle, station };
	return rd_listener_watch(
		station->listener, station->epoll_fd, (uintptr_t)&station->listener_source);
}

void rd_tcp_arrivals_end(struct rd_tcp_station *station)
{
	if (!station->listener)
		return;
	rd_listener_unwatch(station->listener, station->epoll_fd);
	rd_arrivals_release(station->come);
	if (station->shared)
		rd_shared_unlisten(station->shared);
	else
		rd_listener_release(station->listener);
	station->come = NULL;
	station->listener = NULL;
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
	if (station->strips)
		rd_wire_strip(&arrival->wire);
	connector = find(station, hello.comm_id);
	if (!rd_tcp_hello_valid(&hello) ||
		!(connector ? rd_tcp_hello_fits(&hello, connector->local) : may_be_early(station)))
		rd_listener_reject(station->listener, &arrival->wire, "not a rank of this job");
	else if (!connector || !rd_tcp_connections_admit(connector, &arrival->wire, &hello))
		rd_tcp_early_keep(&station->early, station->listener, &arrival->wire, &hello,
			connector != NULL);
}

static void look_at_error(struct rd_tcp_station *station, int64_t now_ms)
{
	int64_t since_ms;
	int error = rd_listener_error(station->listener, &since_ms);

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
	struct rd_arrival *arrival;

	rd_listener_serve(station->listener, now_ms);
	while ((arrival = rd_arrivals_take(station->come))) {
		admit(station, arrival);
		free(arrival);
	}
	look_at_error(station, now_ms);
	deadline_ms = rd_listener_deadline(station->listener);
	if (deadline_ms != RD_NEVER)
		rd_tcp_timer_request(&station->timer, deadline_ms);
}
