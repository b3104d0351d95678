#include "transports/tcp/link.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

/* Below this many bytes, a copy behind the header costs less than a second iovec. */
#define GATHER_MIN 1024

/* advance() polls the events once in this many calls, when all links are open. */
#define POLL_INTERVAL 32

/* Calls of advance() without a sleep after which links leave both epolls. To watch
   them again costs two microseconds a link: little beside this many calls. */
#define AWAKE_CALLS 256

/* The time that close() gives queued messages to leave, when their reader is slow. */
#define LINGER_MS 1000

static struct rd_tcp_link *link_of(struct rd_link *base)
{
	return (struct rd_tcp_link *)base; /* base comes first */
}

static struct rd_tcp_endpoint *endpoint_of(struct rd_endpoint *base)
{
	return (struct rd_tcp_endpoint *)base; /* base comes first */
}

/* ---- Links that are open ------------------------------------------------------------------- */

/* Called after output: advance() writes the bytes that the socket did not take. */
static void queue_link(struct rd_tcp_link *link)
{
	if (link->stream.queued == 0 || link->queued)
		return;
	link->queued = true;
	link->next_queued = link->endpoint->queued;
	link->endpoint->queued = link;
}

static void *link_reserve(struct rd_link *base, size_t size)
{
	if (!base->ready || base->error)
		return NULL;
	return rd_tcp_stream_reserve(&link_of(base)->stream, size);
}

static void link_commit(struct rd_link *base, const struct rd_tag *tag, size_t size)
{
	rd_tcp_stream_commit(&link_of(base)->stream, tag, size);
	queue_link(link_of(base));
}

static bool link_send(struct rd_link *base, const struct rd_tag *tag, const void *from, size_t size)
{
	bool accepted;

	if (!base->ready || base->error)
		return false;
	accepted = rd_tcp_stream_send(&link_of(base)->stream, tag, from, size);
	queue_link(link_of(base));
	return accepted;
}

static bool link_recv(struct rd_link *base, void *into, size_t size, struct rd_message *message)
{
	if (!base->ready || base->error)
		return false;
	return rd_tcp_stream_recv(&link_of(base)->stream, into, size, message);
}

static void link_release(struct rd_link *base)
{
	rd_tcp_stream_release(&link_of(base)->stream);
}

static const struct rd_link_ops link_ops = {
	.reserve = link_reserve,
	.commit = link_commit,
	.send = link_send,
	.recv = link_recv,
	.release = link_release,
};

/* ---- Creating, opening and failing -------------------------------------------------------- */

/* The endpoint's epoll watches the end of the connection alone. Both are edge-triggered, so each
   event comes once. */
static int link_watch(struct rd_tcp_link *link)
{
	const struct rd_tcp_endpoint *endpoint = link->endpoint;
	struct epoll_event wake = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };

	link->watched = true;
	if (rd_event_watch(endpoint->connector.station->epoll_fd, EPOLL_CTL_ADD,
		    link->stream.wire.fd, EPOLLRDHUP | EPOLLET, &link->source))
		return -1;
	return epoll_ctl(endpoint->local->epoll_fd, EPOLL_CTL_ADD, link->stream.wire.fd, &wake);
}

static void link_unwatch(struct rd_tcp_link *link)
{
	link->watched = false;
	epoll_ctl(link->endpoint->local->epoll_fd, EPOLL_CTL_DEL, link->stream.wire.fd, NULL);
	rd_event_watch(link->endpoint->connector.station->epoll_fd, EPOLL_CTL_DEL,
		link->stream.wire.fd, 0, NULL);
}

/* In any thread that polls the station. */
static bool link_hung_up(void *owner)
{
	struct rd_tcp_link *link = owner;

	atomic_store(&link->hung_up, true);
	atomic_store(&link->endpoint->hung_up, true);
	rd_tcp_stir(&link->endpoint->connector);
	return false;
}

static void link_fail(struct rd_tcp_link *link, const char *reason, int number)
{
	link->base.error = RONDO_SYSTEM;
	snprintf(link->base.reason, sizeof(link->base.reason), "%s: %s", reason, strerror(number));
}

static void link_opened(void *owner, const struct rd_wire *wire)
{
	struct rd_wire opened = *wire;
	struct rd_tcp_link *link = owner;

	if (rd_tcp_stream_init(&link->stream, &opened, &link->base, link->endpoint->local)) {
		rd_wire_close(&opened);
		link_fail(link, "could not be set up", ENOMEM);
		return;
	}
	if (link_watch(link)) {
		link_fail(link, "cannot be watched", errno);
		return;
	}
	link->base.rail =
		rd_interfaces_rail(&link->endpoint->connector.station->interfaces, opened.fd);
	link->base.ready = true;
}

static void link_failed(void *owner, int error, const char *reason)
{
	struct rd_tcp_link *link = owner;

	link->base.error = error;
	snprintf(link->base.reason, sizeof(link->base.reason), "%s", reason);
}

struct rd_tcp_link *rd_tcp_link_create(
	struct rd_tcp_endpoint *endpoint, int peer, int channel, const struct rd_tcp_card *card)
{
	struct rd_tcp_link *link = calloc(1, sizeof(*link));

	if (!link) {
		rd_fail(RONDO_MEMORY, "no memory for a tcp link to rank %d", peer);
		return NULL;
	}
	link->base = (struct rd_link){
		.ops = &link_ops,
		.transport = endpoint->base.transport,
		.peer = peer,
		.channel = channel,
		.message_max = endpoint->local->settings->piece_size,
		.send_min = GATHER_MIN,
	};
	link->endpoint = endpoint;
	link->stream.wire = (struct rd_wire)RD_WIRE(-1);
	link->source = (struct rd_event_source){ link_hung_up, link };
	link->next = endpoint->links;
	endpoint->links = link;
	link->connection = (struct rd_tcp_connection){
		.connector = &endpoint->connector,
		.peer = peer,
		.channel = channel,
		.card = *card,
		.opened = link_opened,
		.failed = link_failed,
		.owner = link,
	};
	rd_tcp_connector_begin(&endpoint->connector, &link->connection);
	return link;
}

/* ---- Progress ----------------------------------------------------------------------------- */

static bool flush_queued(struct rd_tcp_endpoint *endpoint)
{
	struct rd_tcp_link **at = &endpoint->queued;
	bool moved = false;

	while (*at) {
		struct rd_tcp_link *link = *at;

		moved |= rd_tcp_stream_flush(&link->stream);
		if (link->stream.queued > 0 && !link->base.error) {
			at = &link->next_queued;
			continue;
		}
		*at = link->next_queued;
		link->queued = false;
	}
	return moved;
}

static bool read_ahead(struct rd_tcp_link *link)
{
	return link->base.ready && rd_tcp_stream_read_ahead(&link->stream);
}

/* Reads ahead on one link a call, in turn: the cost of a call must not grow with the links. */
static bool read_ahead_next(struct rd_tcp_endpoint *endpoint)
{
	struct rd_tcp_link *link =
		endpoint->read_ahead_at ? endpoint->read_ahead_at : endpoint->links;

	if (!link)
		return false;
	endpoint->read_ahead_at = link->next;
	return read_ahead(link);
}

static void read_ahead_all(struct rd_tcp_endpoint *endpoint)
{
	for (struct rd_tcp_link *link = endpoint->links; link; link = link->next)
		read_ahead(link);
}

/* A link whose peer hung up fails after the last of its messages has been received. */
static bool check_hung_up(struct rd_tcp_endpoint *endpoint)
{
	bool failed = false;

	atomic_store(&endpoint->hung_up, false);
	for (struct rd_tcp_link *link = endpoint->links; link; link = link->next) {
		if (!atomic_load(&link->hung_up) || link->base.error)
			continue;
		rd_tcp_stream_check(&link->stream);
		failed |= link->base.error != 0;
		if (!link->base.error)
			atomic_store(&endpoint->hung_up, true);
	}
	return failed;
}

static bool handle_events(struct rd_tcp_endpoint *endpoint)
{
	endpoint->calls = 0;
	return rd_tcp_connector_advance(&endpoint->connector);
}

/* Before a sleep. A socket that is added again reports EPOLLOUT once, which costs one wake-up. */
static void watch_links(struct rd_tcp_endpoint *endpoint)
{
	for (struct rd_tcp_link *link = endpoint->links; link; link = link->next) {
		if (!link->watched && link->base.ready && !link->base.error && link_watch(link))
			link_fail(link, "cannot be watched", errno);
	}
	endpoint->awake = 0;
}

static void unwatch_links(struct rd_tcp_endpoint *endpoint)
{
	for (struct rd_tcp_link *link = endpoint->links; link; link = link->next)
		if (link->watched)
			link_unwatch(link);
}

bool rd_tcp_links_advance(struct rd_endpoint *base)
{
	struct rd_tcp_endpoint *endpoint = endpoint_of(base);
	bool poll_due = endpoint->connector.unfinished > 0 || ++endpoint->calls >= POLL_INTERVAL;
	bool moved = false;

	if (endpoint->queued)
		moved |= flush_queued(endpoint);
	if (!moved && (poll_due || endpoint->queued))
		moved |= read_ahead_next(endpoint);
	if (poll_due)
		moved |= handle_events(endpoint);
	if (atomic_load_explicit(&endpoint->hung_up, memory_order_relaxed))
		moved |= check_hung_up(endpoint);
	if (!endpoint->armed && ++endpoint->awake == AWAKE_CALLS)
		unwatch_links(endpoint);
	return moved;
}

/* Reads all that has arrived: the driver's epoll reports only later bytes. */
void rd_tcp_links_arm(struct rd_endpoint *base)
{
	struct rd_tcp_endpoint *endpoint = endpoint_of(base);

	endpoint->armed = true;
	watch_links(endpoint);
	handle_events(endpoint);
	read_ahead_all(endpoint);
	if (atomic_load_explicit(&endpoint->hung_up, memory_order_relaxed))
		check_hung_up(endpoint);
	for (struct rd_tcp_link *link = endpoint->links; link; link = link->next)
		if (link->base.ready && !link->base.error)
			rd_tcp_stream_arm(&link->stream);
}

void rd_tcp_links_disarm(struct rd_endpoint *base)
{
	struct rd_tcp_endpoint *endpoint = endpoint_of(base);

	endpoint->armed = false;
	for (struct rd_tcp_link *link = endpoint->links; link; link = link->next)
		rd_tcp_stream_disarm(&link->stream);
	/* The event that woke the driver may be one of this endpoint. */
	endpoint->calls = POLL_INTERVAL;
}

/* ---- Closing ------------------------------------------------------------------------------ */

/* Writes queued output. True: some is left, and its reader is alive. */
static bool output_waits(struct rd_tcp_endpoint *endpoint)
{
	bool waits = false;

	flush_queued(endpoint);
	/* The peer may be closing, too, and wait until this rank has read its messages. */
	for (struct rd_tcp_link *link = endpoint->queued; link; link = link->next_queued)
		waits |= rd_tcp_stream_drain(&link->stream);
	return waits;
}

static void endpoint_linger(struct rd_tcp_endpoint *endpoint)
{
	int64_t deadline = rd_clock_ms() + LINGER_MS, left;
	struct epoll_event events[16];

	watch_links(endpoint);
	while (output_waits(endpoint) && (left = deadline - rd_clock_ms()) > 0)
		epoll_wait(endpoint->local->epoll_fd, events, 16, (int)left);
}

/* Afterwards no thread handles an event of them. */
static void unwatch_all(struct rd_tcp_endpoint *endpoint)
{
	rd_tcp_station_lock(endpoint->connector.station, &endpoint->connector);
	unwatch_links(endpoint);
	rd_tcp_station_unlock(endpoint->connector.station);
}

void rd_tcp_links_close(struct rd_tcp_endpoint *endpoint)
{
	rd_tcp_connector_stop(&endpoint->connector);
	endpoint_linger(endpoint);
	unwatch_all(endpoint);
	while (endpoint->links) {
		struct rd_tcp_link *link = endpoint->links;

		endpoint->links = link->next;
		/* The end follows the last byte. Unread bytes here would make the kernel reset the
		   connection, and the peer would lose messages that it has not read. */
		if (link->base.ready) {
			shutdown(link->stream.wire.fd, SHUT_WR);
			rd_tcp_stream_drain(&link->stream);
		}
		rd_tcp_stream_finish(&link->stream);
		free(link);
	}
}

void rd_tcp_links_abandon(struct rd_tcp_endpoint *endpoint)
{
	while (endpoint->links) {
		struct rd_tcp_link *link = endpoint->links;

		endpoint->links = link->next;
		rd_tcp_stream_finish(&link->stream);
		free(link);
	}
}
