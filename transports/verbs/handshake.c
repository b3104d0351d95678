#include "transports/verbs/handshake.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "transports/verbs/endpoint.h"

#define HELLO_MAGIC 0x6876726fu /* "orvh" */
#define READY_MAGIC 0x7276726fu /* "orvr" */
#define VERSION 1

static void fail(struct rd_verbs_link *link, int error, const char *reason)
{
	rd_tcp_wire_close(link->endpoint->connector.station->epoll_fd, &link->wire);
	rd_verbs_link_fail(link, error, "%s", reason);
}

/* The socket buffer has room for both messages: a short write is an error. */
static bool send_bytes(struct rd_verbs_link *link, const void *bytes, size_t size)
{
	struct iovec all = { (void *)bytes, size };

	if (rd_wire_send(&link->wire, &all, 1) == (ssize_t)size)
		return true;
	fail(link, RONDO_BROKEN, "lost its connection");
	return false;
}

/* ---- Sending ------------------------------------------------------------------------------- */

static void send_hello(struct rd_verbs_link *link)
{
	struct rd_verbs_hello hello = {
		.magic = HELLO_MAGIC,
		.version = VERSION,
		.rails = (uint16_t)link->rails,
		.slots = (uint32_t)link->endpoint->local->settings->slots,
		.message_max = (uint32_t)link->base.message_max,
	};

	for (int i = 0; i < link->rails; i++) {
		rd_verbs_queue_pair_address(&link->pairs[i], &hello.at[i]);
		hello.at[i].key = link->regions[i]->rkey;
		hello.at[i].ring = (uintptr_t)link->in.ring;
	}
	send_bytes(link, &hello, sizeof(hello));
}

/* ---- The peer's messages ------------------------------------------------------------------- */

/* Connects each pair of rails of the same number; the link goes on with those that work. */
static int connect_rails(struct rd_verbs_link *link)
{
	int rails = link->hello.rails < link->rails ? link->hello.rails : link->rails, err = 0;

	for (int i = 0; i < rails; i++) {
		const struct rd_verbs_port *port = &link->pairs[i].rail->port;

		link->peers[i] = link->hello.at[i];
		err = rd_verbs_queue_pair_connect(
			&link->pairs[i], &link->peers[i], link->endpoint->local->settings);
		if (!err)
			link->connected |= 1u << i;
		else if (rails > 1)
			rd_log(RD_WARN, RD_NET, "NET/IB : %s:%d is not used with rank %d: %s",
				port->device, port->number, link->base.peer, rondo_last_error());
	}
	return link->connected ? 0 : err;
}

/* Both sides take the lesser limits, and so the same ring. */
static void take_limits(struct rd_verbs_link *link)
{
	const struct rd_verbs_hello *hello = &link->hello;
	uint32_t slots = (uint32_t)link->endpoint->local->settings->slots;

	if (hello->message_max < link->base.message_max)
		link->base.message_max = hello->message_max;
	if (hello->slots < slots)
		slots = hello->slots;
	link->size = rd_verbs_ring_of((int)slots, link->base.message_max);
}

static void take_hello(struct rd_verbs_link *link)
{
	const struct rd_verbs_hello *hello = &link->hello;
	struct rd_verbs_ready ready = { .magic = READY_MAGIC };
	int err;

	if (hello->magic != HELLO_MAGIC || hello->version != VERSION || hello->rails < 1 ||
		hello->rails > RD_VERBS_RAILS_MAX || hello->slots < 1 || hello->message_max < 64) {
		fail(link, RONDO_PROTOCOL, "sent an invalid greeting");
		return;
	}
	take_limits(link);
	err = connect_rails(link);
	if (err) {
		fail(link, err, rondo_last_error());
		return;
	}
	ready.rails = link->connected;
	send_bytes(link, &ready, sizeof(ready));
}

/* Returns the number of the rail that carries a channel: the rails that work take turns. */
static int rail_of(uint32_t working, int channel)
{
	int turn = channel % __builtin_popcount(working), rail = 0;

	for (;; rail++)
		if (working >> rail & 1 && turn-- == 0)
			return rail;
}

static void take_ready(struct rd_verbs_link *link)
{
	uint32_t working = link->connected & link->ready.rails;

	if (link->ready.magic != READY_MAGIC || !working) {
		fail(link, RONDO_UNREACHABLE, "shares no RDMA port that works with this rank");
		return;
	}
	link->connected = working;
	link->base.rail = rail_of(working, link->base.channel);
	link->base.ready = true;
	link->endpoint->unfinished--;
}

/* ---- Events of the socket ------------------------------------------------------------------ */

static void take_end(struct rd_verbs_link *link, int number)
{
	rd_tcp_wire_close(link->endpoint->connector.station->epoll_fd, &link->wire);
	if (link->base.ready)
		link->hung_up = link->endpoint->hung_up = true;
	else
		rd_verbs_link_fail(link, RONDO_BROKEN, "closed its connection%s%s",
			number ? ": " : "", number ? strerror(number) : "");
}

/* Reads up to `end` bytes of hello and ready. True: they are here. */
static bool read_until(struct rd_verbs_link *link, char *into, size_t begin, size_t end)
{
	struct iovec rest = { into + (link->read - begin), end - link->read };
	ssize_t size;

	if (link->read >= end)
		return true;
	size = rd_wire_recv(&link->wire, &rest, 1);
	if (size > 0)
		link->read += (size_t)size;
	else if (size == 0 || (errno != EAGAIN && errno != EINTR))
		take_end(link, size < 0 ? errno : 0);
	return link->read == end;
}

/* The ready socket is silent: an event is the end of the peer. */
static void read_end(struct rd_verbs_link *link)
{
	char byte;
	struct iovec one = { &byte, 1 };
	ssize_t size = rd_wire_recv(&link->wire, &one, 1);

	if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR))
		take_end(link, size < 0 ? errno : 0);
	else if (size > 0)
		fail(link, RONDO_PROTOCOL, "sent bytes beside its messages");
}

static bool link_handle(void *owner)
{
	struct rd_verbs_link *link = owner;
	size_t hello = sizeof(link->hello), both = hello + sizeof(link->ready);

	if (link->base.ready || link->base.error) {
		read_end(link);
		return true;
	}
	if (link->read < hello && read_until(link, (char *)&link->hello, 0, hello))
		take_hello(link);
	/* TLS may have read both from the socket, which reports nothing then. */
	if (link->read >= hello && !link->base.error &&
		read_until(link, (char *)&link->ready, hello, both))
		take_ready(link);
	return true;
}

/* ---- Connecting ---------------------------------------------------------------------------- */

static void connection_opened(void *owner, const struct rd_wire *wire)
{
	struct rd_verbs_link *link = owner;

	link->wire = *wire;
	link->source = (struct rd_event_source){ link_handle, link };
	if (rd_event_watch(link->endpoint->connector.station->epoll_fd, EPOLL_CTL_ADD, wire->fd,
		    EPOLLIN, &link->source)) {
		fail(link, RONDO_SYSTEM, "has a connection that cannot be watched");
		return;
	}
	send_hello(link);
}

static void connection_failed(void *owner, int error, const char *reason)
{
	rd_verbs_link_fail(owner, error, "%s", reason);
}

void rd_verbs_handshake_begin(struct rd_verbs_link *link, const struct rd_tcp_card *card)
{
	link->connection = (struct rd_tcp_connection){
		.connector = &link->endpoint->connector,
		.peer = link->base.peer,
		.channel = link->base.channel,
		.card = *card,
		.opened = connection_opened,
		.failed = connection_failed,
		.owner = link,
	};
	rd_tcp_connector_begin(&link->endpoint->connector, &link->connection);
}
