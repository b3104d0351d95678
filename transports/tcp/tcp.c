/*
 * tcp: messages over TCP sockets, between any two ranks that have an IP route, IPv4 or IPv6.
 *
 * The wire format
 * ---------------
 * All numbers are little endian. Structs travel as they are in memory, without gaps.
 *
 * A rank listens on one socket an interface, bound to one address there, for all comms of its job,
 * and for control connections (bootstrap/listener.h).
 * RONDO_INTERFACE names the interfaces. Without it, the rank listens on the one that leads to
 * MASTER_ADDR and, in reserve, on the others that lead out. Its card lists the addresses. Cards
 * travel through the rendezvous, as does the comm's key (rd_local): only its ranks have it.
 *
 *   card      magic 4 | version 2 | addresses 1 | of which shared 1 | host 8 | address[8]
 *   address   family 2 (4, 6) | port 2 | 0 4 | bytes 16
 *
 * The higher rank of a pair connects to the lower, one connection a channel. It tries the lower
 * rank's addresses in turn until one answers. Channel c begins with shared address c modulo their
 * number, so the channels spread over the named interfaces. Before any message, each side sends the
 * comm's key:
 *
 *   connector                                                acceptor
 *     hello  ----------------------------------------------->  key, comm, ranks and channel right?
 *     key, comm, ranks right?  <-----------------------------  hello
 *     messages  <------------------------------------------->  messages
 *
 *   hello     magic 4 | version 2 | stripe 2 | from 4 | to 4 | channel 4 | 0 4 | comm 8 | key 16
 *
 * Where the job has a secret, and the two ranks are on different hosts, a TLS handshake comes first
 * (secure/tls.h). All that follows is encrypted; where RONDO_ENCRYPT is 0, the first hello alone.
 *
 * An acceptor closes a connection that sends anything else, without an answer. A connection that
 * comes before this side's open() waits for it, also where this side has no such comm yet; a
 * bounded number does. `stripe` numbers the sockets of one link: a link has one, 0.
 *
 * Then messages flow in both directions, each a header and its payload, with nothing between them:
 *
 *   message   size 4 | check 4 | tag 24 | payload[size]
 *
 * `check` is a constant plus the message's number on this socket and direction, modulo 2^16. It
 * detects a stream that has lost its framing. close() ends the connection.
 *
 * With RONDO_CHECKSUM=1, headers are longer by two CRC-32C: of the payload, and of all before in
 * the header. The receiver trusts no size before it has checked the second one.
 *
 *   message   size 4 | check 4 | tag 24 | payload's CRC 4 | header's CRC 4 | payload[size]
 *
 * Events
 * ------
 * The comm's epoll wakes a sleeping rank. The station's epoll reports the socket. It holds the
 * listeners, the timer, the unfinished connections and, for their hang-up alone, the links, of all
 * comms of the job. An endpoint polls it while it connects, before a sleep, and else once in 32
 * calls of advance(). Any thread handles the events of all comms, and leaves for each what is due
 * to it; a write to the job's eventfd wakes the others. A link that a call waits for detects the
 * end of its connection by itself, in recv().
 *
 * So a comm without a link over tcp has no descriptor. With links it has the epoll on which it
 * sleeps, and their sockets.
 *
 * Watching a socket costs time: each arriving segment takes the locks of all epolls that watch it,
 * whose cache lines come from the other core. After 256 calls of advance() without a sleep, the
 * links leave both epolls. They return before the next sleep.
 *
 * A rank that sleeps in the middle of a large message, or before one, is woken when all of it has
 * arrived (SO_RCVLOWAT), at most 256 KiB: not by each segment.
 *
 * Reading ahead
 * -------------
 * The socket buffers of a connection can be smaller than a message, so a sender may have to wait
 * for its reader. While no recv() requests a link's next message, advance() reads it into the
 * link's buffer, at the cost of one more copy. It does so only where ranks could otherwise wait for
 * each other: when this rank's output is stuck, when nothing else moves, and before a sleep.
 *
 * Files, lowest first
 * -------------------
 *   interface   network interfaces, addresses as text
 *   card        the card and the hello
 *   timer       one timer for all deadlines
 *   early       sockets that came before open()
 *   connection  the socket of one peer and channel, until it is proved
 *   arrivals    what comes to the rank's listener (bootstrap/listener.h)
 *   listener    one listening socket an interface
 *   station     all of these, for a job
 *   connector   the connections of an endpoint; verbs connects its links by it as well
 *   stream      one proved socket: framing, queue, buffers; its failures are in stream_failure
 *   link        links and their progress
 *   tcp         the endpoint
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transports/tcp/card.h"
#include "transports/tcp/link.h"
#include "transports/transports.h"

/* Picoseconds a byte: about 2.5 GB/s over the loopback, 10 Gbit/s between hosts. */
#define COST_HERE 400
#define COST_THERE 800

static int tcp_reach(const struct rd_place *here, const struct rd_place *there)
{
	return rd_place_same_host(here, there) ? COST_HERE : COST_THERE;
}

static void tcp_close(struct rd_endpoint *base)
{
	struct rd_tcp_endpoint *endpoint = (struct rd_tcp_endpoint *)base;

	if (!endpoint)
		return;
	rd_tcp_links_close(endpoint);
	rd_tcp_connector_finish(&endpoint->connector);
	free(endpoint);
}

static void tcp_abandon(struct rd_endpoint *base)
{
	struct rd_tcp_endpoint *endpoint = (struct rd_tcp_endpoint *)base;

	if (!rd_tcp_connector_abandon(&endpoint->connector))
		return;
	rd_tcp_links_abandon(endpoint);
	free(endpoint);
}

static int tcp_listen(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char card[RD_CARD_MAX], size_t *card_size)
{
	struct rd_tcp_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int err;

	if (!endpoint)
		return rd_fail(RONDO_MEMORY, "no memory for a tcp endpoint");
	endpoint->base.transport = &rd_transport_tcp;
	endpoint->base.message_max = local->settings->piece_size;
	endpoint->local = local;
	err = rd_tcp_connector_start(&endpoint->connector, local, local->shared);
	if (err) {
		free(endpoint);
		return err;
	}
	*card_size = sizeof(endpoint->connector.station->card);
	memcpy(card, &endpoint->connector.station->card, *card_size);
	*result = &endpoint->base;
	return 0;
}

static int tcp_open(struct rd_endpoint *base, int peer, int channel, const unsigned char *bytes,
	size_t size, struct rd_link **result)
{
	struct rd_tcp_endpoint *endpoint = (struct rd_tcp_endpoint *)base;
	struct rd_tcp_link *link;
	struct rd_tcp_card card;
	int err = rd_tcp_card_read(&card, bytes, size, peer);

	if (err)
		return err;
	assert(peer != endpoint->local->rank && channel < RD_TCP_CHANNELS_MAX);
	link = rd_tcp_link_create(endpoint, peer, channel, &card);
	if (!link)
		return RONDO_MEMORY;
	*result = &link->base;
	return 0;
}

/* Bytes to an address of this host go by no interface. */
static int tcp_rails(struct rd_endpoint *base, const unsigned char *bytes, size_t size)
{
	const struct rd_tcp_endpoint *endpoint = (const struct rd_tcp_endpoint *)base;
	const struct rd_tcp_card *own = &endpoint->connector.station->card;
	struct rd_tcp_card card;

	if (rd_tcp_card_read(&card, bytes, size, -1) || card.host == own->host)
		return 1;
	return card.shared < own->shared ? card.shared : own->shared;
}

const struct rd_transport rd_transport_tcp = {
	.abi = RD_TRANSPORT_ABI,
	.name = "tcp",
	.reach = tcp_reach,
	.listen = tcp_listen,
	.open = tcp_open,
	.rails = tcp_rails,
	.advance = rd_tcp_links_advance,
	.arm = rd_tcp_links_arm,
	.disarm = rd_tcp_links_disarm,
	.close = tcp_close,
	.abandon = tcp_abandon,
	.shares = true,
	.watches_links = true,
};
