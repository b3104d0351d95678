#include "transports/tcp/arrivals.h"

#include <string.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/error.h"
#include "base/log.h"
#include "net/socket.h"
#include "transports/tcp/connector.h"
#include "transports/tcp/early.h"

#define HELLO_MS 10000
/* Connections that wait for a peer fail when none could be accepted for so long. */
#define ACCEPT_MS 1000

static long hello_size(const unsigned char *bytes, size_t size)
{
	(void)bytes;
	(void)size;
	return sizeof(struct rd_tcp_hello);
}

static bool handle(void *connector)
{
	return rd_tcp_arrivals_serve(connector);
}

int rd_tcp_arrivals_start(struct rd_tcp_connector *connector)
{
	const struct rd_settings *settings = connector->local->settings;
	struct rd_door_rules rules = {
		.psk = settings->has_psk ? settings->psk : NULL,
		.takes_plain = true,
		.strips = !settings->encrypt,
		.most = RD_DOOR_MOST + connector->local->size * settings->channels,
		.greeting_ms = HELLO_MS,
		.greeting_most = sizeof(struct rd_tcp_hello),
		.greeting_size = hello_size,
	};
	struct rd_tcp_arrivals *arrivals = &connector->arrivals;
	int err = rd_door_create(&arrivals->door, &rules);

	if (err)
		return err;
	arrivals->source = (struct rd_event_source){ handle, connector };
	if (rd_event_watch(connector->epoll_fd, EPOLL_CTL_ADD, rd_door_fd(arrivals->door), EPOLLIN,
		    &arrivals->source))
		return rd_fail_errno("cannot watch a socket");
	return 0;
}

/* ---- New ones ------------------------------------------------------------------------------ */

/* True: a connection has taken it. */
static bool admit(struct rd_tcp_connector *connector, struct rd_arrival *arrival)
{
	struct rd_door *door = connector->arrivals.door;
	struct rd_tcp_hello hello;

	memcpy(&hello, arrival->greeting, sizeof(hello));
	if (!rd_tcp_hello_valid(&hello, connector->local)) {
		rd_door_reject(door, &arrival->wire, "not a rank of this job");
		return false;
	}
	switch (rd_tcp_connections_admit(connector, &arrival->wire, &hello)) {
	case RD_TCP_TAKEN:
		return true;
	case RD_TCP_REFUSED:
		rd_door_reject(door, &arrival->wire, "not awaited");
		break;
	case RD_TCP_EARLY:
		rd_tcp_early_keep(connector, &arrival->wire, &hello);
	}
	return false;
}

static void look_at_error(struct rd_tcp_connector *connector, int64_t now_ms)
{
	struct rd_tcp_arrivals *arrivals = &connector->arrivals;
	int64_t since_ms;
	int error = rd_door_error(arrivals->door, &since_ms);

	if (error && !arrivals->warned)
		rd_log(RD_WARN, RD_NET, "NET/Socket : rank %d cannot accept a connection: %s",
			connector->local->rank, strerror(error));
	arrivals->warned = error != 0;
	if (error && (rd_is_forbidden(error) || now_ms - since_ms >= ACCEPT_MS))
		rd_tcp_connections_fail_awaited(connector, error);
}

bool rd_tcp_arrivals_serve(struct rd_tcp_connector *connector)
{
	struct rd_door *door = connector->arrivals.door;
	int64_t now_ms = rd_clock_ms(), deadline_ms;
	struct rd_arrival arrival;
	bool taken = false;

	rd_door_serve(door, now_ms);
	while (rd_door_next(door, &arrival))
		taken |= admit(connector, &arrival);
	look_at_error(connector, now_ms);
	deadline_ms = rd_door_deadline(door);
	if (deadline_ms != RD_NEVER)
		rd_tcp_timer_request(&connector->timer, deadline_ms);
	return taken;
}

/* ---- The end ------------------------------------------------------------------------------- */

void rd_tcp_arrivals_finish(struct rd_tcp_connector *connector)
{
	rd_tcp_early_close(connector);
	rd_door_destroy(connector->arrivals.door);
	connector->arrivals.door = NULL;
}

void rd_tcp_arrivals_abandon(struct rd_tcp_connector *connector)
{
	rd_tcp_early_close(connector);
	rd_door_abandon(connector->arrivals.door);
	connector->arrivals.door = NULL;
}
