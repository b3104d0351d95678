/*
 * verbs: messages over InfiniBand or RoCE, by libibverbs, between any two ranks whose ports reach
 * each other. Reliable connected queue pairs write messages into memory of the peer.
 *
 * Rails
 * -----
 * A rail is one port of an RDMA device. An endpoint uses one or several (RONDO_IB_DEVICE), and a
 * link has a queue pair on each: rail i here with rail i of the peer. Channel c goes over rail c
 * modulo the rails that work; the others are in reserve.
 *
 * Connecting
 * ----------
 * Each link has a TCP socket, connected by the code of tcp (tcp/connector.h): the card, and the
 * hello that proves a peer, are those of tcp. Then both sides send, over the socket
 *
 *   hello     magic 4 | version 2 | rails 2 | slots 4 | message_max 4 | address[8]
 *   address   queue pair 4 | PSN 4 | LID 2 | MTU 1 | GID type 1 | key 4 | ring 8 | GID 16
 *   ready     magic 4 | rails whose queue pairs are connected, as bits 4
 *
 * All numbers are little endian. A side that has both can receive, and so can its peer. The socket
 * stays open and silent: its end is how a side learns that its peer has closed, or died.
 *
 * Messages
 * --------
 * The receiver has a ring of slots in registered memory, and the sender one of the same size
 * (ring.h). A message is one RDMA write with immediate data, from a slot of the sender to the slot
 * at the same offset of the receiver:
 *
 *   slot       size 4 | check 4 | tag 24 | payload[size]
 *   immediate  1 bit: a message | 1 bit: credits alone | 1 bit: a resume | 0 6 bits |
 *              held 7 bits, of a resume | released 16 bits
 *
 * `check` is the message's number, modulo 2^32. With RONDO_CHECKSUM=1 it is the CRC-32C of that
 * number, the size, the tag and the payload, wherever that has landed. The receiver computes it
 * before it returns the message.
 *
 * The completion of the receive that the immediate data uses up is the sign that the message is
 * here; memory is not polled. The caller reads it in its slot. `released` counts the messages that
 * the writer has released, modulo 2^16: these credits give the other side room. They travel with
 * messages. A side that has none to send returns credits alone, when it keeps those of half the
 * messages or of two large ones. Credits bound the writes under way, so that receives and
 * completions suffice for all of them.
 *
 * A short message goes inline, in its request. One send in 16 is signalled.
 *
 * send() from registered memory copies nothing: the request gathers the header from the slot and
 * the payload from that memory. It is signalled, and its completion ends the use of the memory.
 *
 * recv() into registered memory announces that place for the next message, in the memory before the
 * ring. A sender that has the announcement writes the payload there, and the header alone to the
 * slot, with a bit in its size (landing.h).
 *
 * Failures
 * --------
 * A queue pair fails: a request has no answer, a port goes down, a device fails. The link goes on
 * over its next rail, and nothing is lost or doubled: the slots of the sender hold all messages
 * that the receiver has not released. Both ends resume with the number of messages that have
 * arrived (failover.h), and the other end sends those behind them again. Without a rail that works,
 * the link fails, with the cause in words (status.h). A link without another rail waits for a port
 * that is down until its requests have no retries left.
 *
 * Sleep
 * -----
 * arm() has each rail's completion queue notify its channel, whose descriptor is in the driver's
 * epoll, and polls the queue once more. The sockets are in the connector's epoll, which is in the
 * driver's. advance() polls it once in 64 calls when all links are ready.
 *
 * Files, lowest first
 * -------------------
 *   library      libibverbs, loaded at run time
 *   gid, port    ports and their addresses, from sysfs
 *   device       devices that this process has opened
 *   rail         a port and its completion queue
 *   region       registered memory of the program
 *   queue_pair   states and requests of one queue pair
 *   ring         where messages lie
 *   link         a link and its parts; endpoint: all links
 *   landing      payloads that go straight to their place
 *   messages     messages and credits
 *   resume       the counts by which a link goes on over another rail
 *   status       completion statuses and events, in words
 *   failover     queue pairs that fail
 *   completion   polling
 *   operations   reserve, commit, recv, release
 *   handshake    the socket
 *   event        ports and devices that fail
 *   verbs        the endpoint
 */
#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transports/transports.h"
#include "transports/verbs/completion.h"
#include "transports/verbs/endpoint.h"
#include "transports/verbs/event.h"
#include "transports/verbs/handshake.h"
#include "transports/verbs/messages.h"
#include "transports/verbs/operations.h"

/* Picoseconds a byte: about 5 GB/s within a host, where shm is quicker; 100 Gbit/s between two. */
#define COST_HERE 200
#define COST_THERE 80

/* advance() polls the sockets once in this many calls, when all links are ready. */
#define POLL_INTERVAL 64

/* Below this many bytes, a copy costs less than a wait for the end of the send. */
#define SEND_MIN 4096

/* The bounds of the time that close() gives messages to arrive. */
#define LINGER_LEAST_MS 1000
#define LINGER_MOST_MS 30000

static struct rd_verbs_endpoint *endpoint_of(struct rd_endpoint *base)
{
	return (struct rd_verbs_endpoint *)base; /* base comes first */
}

static int verbs_probe(const struct rd_settings *settings)
{
	(void)settings;
	if (!rd_verbs_devices_exist(""))
		return rd_fail(
			RONDO_UNSUPPORTED, "no RDMA device (nothing in /sys/class/infiniband)");
	return rd_verbs_library_load();
}

static int verbs_reach(const struct rd_place *here, const struct rd_place *there)
{
	return rd_place_same_host(here, there) ? COST_HERE : COST_THERE;
}

/* ---- Opening ------------------------------------------------------------------------------- */

/* The card of tcp, and the number of rails. */
#define CARD_SIZE (sizeof(struct rd_tcp_card) + 1)

/* Completions of the links that this rank may have. */
static int completions_most(const struct rd_local *local)
{
	int64_t links = (int64_t)(local->size - 1) * local->settings->channels;
	int64_t most = (links > 0 ? links : 1) * RD_VERBS_COMPLETIONS;

	return most < INT_MAX ? (int)most : INT_MAX;
}

static int open_rail(struct rd_verbs_endpoint *endpoint, const struct rd_verbs_port *port)
{
	struct rd_verbs_rail *rail = &endpoint->rails[endpoint->rail_count];
	int err = rd_verbs_rail_open(rail, port, completions_most(endpoint->local));

	if (!err && rd_event_watch(endpoint->local->epoll_fd, EPOLL_CTL_ADD, rail->channel->fd,
			    EPOLLIN | EPOLLET, NULL))
		err = rd_fail_errno("cannot watch a completion channel");
	if (err)
		rd_verbs_rail_close(rail);
	else
		endpoint->rail_count++;
	return err;
}

/* Ports that cannot be opened are left out, if one can. */
static int open_rails(struct rd_verbs_endpoint *endpoint)
{
	struct rd_verbs_ports ports;
	const struct rd_local *local = endpoint->local;
	int err = rd_verbs_ports_choose(&ports, "", local->place.nic, local->settings);

	if (err)
		return err;
	for (int i = 0; i < ports.count; i++) {
		err = open_rail(endpoint, &ports.at[i]);
		if (err && ports.count > 1)
			rd_log(RD_WARN, RD_NET, "NET/IB : %s:%d is not used: %s",
				ports.at[i].device, ports.at[i].number, rondo_last_error());
	}
	return endpoint->rail_count > 0 ? 0 : err;
}

static void close_rails(struct rd_verbs_endpoint *endpoint)
{
	for (int i = 0; i < endpoint->rail_count; i++)
		rd_verbs_rail_close(&endpoint->rails[i]);
}

static int start_connector(struct rd_verbs_endpoint *endpoint)
{
	int err = rd_tcp_connector_start(&endpoint->connector, endpoint->local, NULL);

	if (err)
		return err;
	err = rd_verbs_events_watch(endpoint);
	if (err)
		rd_tcp_connector_finish(&endpoint->connector);
	return err;
}

static int verbs_listen(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char card[RD_CARD_MAX], size_t *card_size)
{
	struct rd_verbs_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int err;

	if (!endpoint)
		return rd_fail(RONDO_MEMORY, "no memory for a verbs endpoint");
	endpoint->base.transport = &rd_transport_verbs;
	endpoint->base.message_max = rd_verbs_message_max(local->settings);
	endpoint->local = local;
	rd_verbs_regions_init(&endpoint->regions);
	err = open_rails(endpoint);
	if (!err)
		err = start_connector(endpoint);
	if (err) {
		close_rails(endpoint);
		free(endpoint);
		return err;
	}
	memcpy(card, &endpoint->connector.station->card, sizeof(endpoint->connector.station->card));
	card[sizeof(endpoint->connector.station->card)] = (unsigned char)endpoint->rail_count;
	*card_size = CARD_SIZE;
	*result = &endpoint->base;
	return 0;
}

static int card_read(struct rd_tcp_card *card, const unsigned char *bytes, size_t size, int peer)
{
	if (size != CARD_SIZE)
		return rd_fail(RONDO_PROTOCOL, "rank %d has a verbs card of %zu bytes, not %zu",
			peer, size, CARD_SIZE);
	return rd_tcp_card_read(card, bytes, sizeof(*card), peer);
}

static int verbs_rails(struct rd_endpoint *base, const unsigned char *bytes, size_t size)
{
	const struct rd_verbs_endpoint *endpoint = endpoint_of(base);
	struct rd_tcp_card card;
	int there = card_read(&card, bytes, size, -1) ? 1 : bytes[CARD_SIZE - 1];

	if (there < 1)
		return 1;
	return there < endpoint->rail_count ? there : endpoint->rail_count;
}

static int verbs_open(struct rd_endpoint *base, int peer, int channel, const unsigned char *bytes,
	size_t size, struct rd_link **result)
{
	struct rd_verbs_endpoint *endpoint = endpoint_of(base);
	struct rd_verbs_link *link;
	struct rd_tcp_card card;
	int err = card_read(&card, bytes, size, peer);

	if (err)
		return err;
	assert(peer != endpoint->local->rank && channel < RD_TCP_CHANNELS_MAX);
	link = rd_verbs_link_create(endpoint, peer, channel, &err);
	if (!link)
		return err;
	link->base.ops = &rd_verbs_link_ops;
	rd_verbs_handshake_begin(link, &card);
	*result = &link->base;
	return 0;
}

/* ---- Registered memory --------------------------------------------------------------------- */

static int verbs_attach(struct rd_endpoint *base, const struct rd_registration *registration)
{
	struct rd_verbs_endpoint *endpoint = endpoint_of(base);

	return rd_verbs_regions_add(
		&endpoint->regions, endpoint->rails, endpoint->rail_count, registration);
}

static void verbs_detach(struct rd_endpoint *base, uint64_t id)
{
	struct rd_verbs_endpoint *endpoint = endpoint_of(base);

	rd_verbs_regions_remove(&endpoint->regions, endpoint->rails, endpoint->rail_count, id);
}

/* ---- Progress ------------------------------------------------------------------------------ */

static bool poll_rails(struct rd_verbs_endpoint *endpoint)
{
	bool moved = false;

	for (int i = 0; i < endpoint->rail_count; i++)
		moved |= rd_verbs_rail_poll(&endpoint->rails[i]);
	return moved;
}

/* A link whose peer is gone fails after the last of its messages has been received. */
static bool check_ends(struct rd_verbs_endpoint *endpoint)
{
	bool failed = false;

	endpoint->hung_up = false;
	for (struct rd_verbs_link *link = endpoint->links; link; link = link->next) {
		if (!link->hung_up || link->base.error)
			continue;
		failed |= rd_verbs_link_check_end(link);
		endpoint->hung_up |= !link->base.error;
	}
	return failed;
}

/* Without registered memory send() would copy, as reserve() does. */
static void offer_sends(struct rd_verbs_endpoint *endpoint)
{
	for (struct rd_verbs_link *link = endpoint->links; link; link = link->next)
		link->base.send_min = endpoint->regions.copied > 0 ? SEND_MIN : SIZE_MAX;
}

static bool verbs_advance(struct rd_endpoint *base)
{
	struct rd_verbs_endpoint *endpoint = endpoint_of(base);
	bool moved = false;

	if (rd_verbs_regions_renew(&endpoint->regions))
		offer_sends(endpoint);

	if (endpoint->unfinished > 0 || ++endpoint->calls >= POLL_INTERVAL) {
		endpoint->calls = 0;
		moved |= rd_tcp_connector_advance(&endpoint->connector);
		moved |= rd_verbs_events_apply(endpoint);
	}
	/* After the sockets: a peer writes its messages before it closes. */
	moved |= poll_rails(endpoint);
	if (endpoint->hung_up)
		moved |= check_ends(endpoint);
	return moved;
}

static void verbs_arm(struct rd_endpoint *base)
{
	struct rd_verbs_endpoint *endpoint = endpoint_of(base);

	for (int i = 0; i < endpoint->rail_count; i++)
		rd_verbs_rail_arm(&endpoint->rails[i]);
	poll_rails(endpoint);
}

/* The event that woke the driver may be one of a socket. */
static void verbs_disarm(struct rd_endpoint *base)
{
	endpoint_of(base)->calls = POLL_INTERVAL;
}

/* ---- Closing ------------------------------------------------------------------------------- */

static bool is_open(const struct rd_verbs_link *link)
{
	return link->base.ready && !link->base.error && !link->hung_up;
}

/* Whether messages are under way to a peer that is there. */
static bool output_waits(const struct rd_verbs_endpoint *endpoint)
{
	for (const struct rd_verbs_link *link = endpoint->links; link; link = link->next) {
		const struct rd_verbs_queue_pair *pair = &link->pairs[link->base.rail];

		if (is_open(link) && (link->paused || pair->done != pair->posted))
			return true;
	}
	return false;
}

static void wait_for_event(struct rd_verbs_endpoint *endpoint, int timeout_ms)
{
	struct pollfd fds[RD_VERBS_RAILS_MAX + 1];
	int count = 0;

	for (; count < endpoint->rail_count; count++)
		fds[count] = (struct pollfd){ endpoint->rails[count].channel->fd, POLLIN, 0 };
	fds[count++] = (struct pollfd){ endpoint->connector.station->epoll_fd, POLLIN, 0 };
	poll(fds, (nfds_t)count, timeout_ms);
}

/* The time in which the device sends a packet again, if it gets no acknowledgement. */
static int64_t retries_ms(const struct rd_settings *settings)
{
	int64_t ms = (INT64_C(4096) << settings->ib_timeout) / 1000000 * (settings->ib_retry + 1);

	return ms < LINGER_LEAST_MS ? LINGER_LEAST_MS : ms > LINGER_MOST_MS ? LINGER_MOST_MS : ms;
}

/* A completion of the last request stands for all before it. */
static void signal_last(struct rd_verbs_endpoint *endpoint)
{
	for (struct rd_verbs_link *link = endpoint->links; link; link = link->next) {
		const struct rd_verbs_queue_pair *pair = &link->pairs[link->base.rail];

		if (is_open(link) && !link->paused && pair->unsignalled > 0 &&
			rd_verbs_queue_pair_has_room(pair, 1))
			rd_verbs_credits_send(link, true);
	}
}

/* The peer's device acknowledges what is in its memory. */
static void linger(struct rd_verbs_endpoint *endpoint)
{
	int64_t deadline = rd_clock_ms() + retries_ms(endpoint->local->settings), left;

	while (output_waits(endpoint) && (left = deadline - rd_clock_ms()) > 0) {
		signal_last(endpoint);
		verbs_arm(&endpoint->base);
		if (!output_waits(endpoint))
			break;
		wait_for_event(endpoint, (int)left);
		rd_tcp_connector_advance(&endpoint->connector);
	}
}

/* A peer may still write where it was told to, and a device may still read: in the error state
   queue pairs do neither. */
static void verbs_halt(struct rd_endpoint *base)
{
	for (struct rd_verbs_link *link = endpoint_of(base)->links; link; link = link->next)
		for (int i = 0; i < link->rails; i++)
			if (link->pairs[i].qp)
				rd_verbs_queue_pair_stop(&link->pairs[i]);
}

static void verbs_close(struct rd_endpoint *base)
{
	struct rd_verbs_endpoint *endpoint = endpoint_of(base);

	if (!endpoint)
		return;
	linger(endpoint);
	rd_tcp_connector_stop(&endpoint->connector);
	while (endpoint->links) {
		struct rd_verbs_link *link = endpoint->links;

		endpoint->links = link->next;
		rd_verbs_link_destroy(link);
	}
	rd_verbs_regions_finish(&endpoint->regions, endpoint->rails, endpoint->rail_count);
	rd_tcp_connector_finish(&endpoint->connector);
	close_rails(endpoint);
	free(endpoint);
}

static void verbs_abandon(struct rd_endpoint *base)
{
	struct rd_verbs_endpoint *endpoint = endpoint_of(base);

	if (!rd_tcp_connector_abandon(&endpoint->connector))
		return;
	while (endpoint->links) {
		struct rd_verbs_link *link = endpoint->links;

		endpoint->links = link->next;
		rd_verbs_link_abandon(link);
	}
	rd_verbs_regions_abandon(&endpoint->regions);
	for (int i = 0; i < endpoint->rail_count; i++)
		rd_verbs_rail_abandon(&endpoint->rails[i]);
	free(endpoint);
}

const struct rd_transport rd_transport_verbs = {
	.abi = RD_TRANSPORT_ABI,
	.name = "verbs",
	.probe = verbs_probe,
	.reach = verbs_reach,
	.listen = verbs_listen,
	.open = verbs_open,
	.rails = verbs_rails,
	.advance = verbs_advance,
	.arm = verbs_arm,
	.disarm = verbs_disarm,
	.attach = verbs_attach,
	.detach = verbs_detach,
	.halt = verbs_halt,
	.close = verbs_close,
	.abandon = verbs_abandon,
};
