/*
 * tcp: messages over TCP sockets, between any two ranks that have an IP route, IPv4 or IPv6.
 *
 * The wire format
 * ---------------
 * All numbers are little endian. Structs travel as they are in memory, without gaps.
 *
 * A rank listens on one socket an interface, bound to one address there. RONDO_INTERFACE names the
 * interfaces. Without it, the rank listens on the one that leads to MASTER_ADDR and, in reserve, on
 * the others that lead out. Its card lists the addresses and carries a random key. Cards travel
 * through the rendezvous, so only ranks of this job hold the key.
 *
 *   card      magic 4 | version 2 | addresses 1 | of which shared 1 | key 16 | address[8]
 *   address   family 2 (4, 6) | port 2 | 0 4 | bytes 16
 *
 * The higher rank of a pair connects to the lower, one connection a channel. It tries the lower
 * rank's addresses in turn until one answers. Channel c begins with shared address c modulo their
 * number, so the channels spread over the named interfaces. Before any message, each side sends the
 * key of the other's card:
 *
 *   connector                                                acceptor
 *     hello (acceptor's key)  ------------------------------>  key, comm, ranks and channel right?
 *     key, comm, ranks right?  <------------------------------ hello (connector's key)
 *     messages  <------------------------------------------->  messages
 *
 *   hello     magic 4 | version 2 | stripe 2 | from 4 | to 4 | channel 4 | 0 4 | comm 8 | key 16
 *
 * An acceptor closes a connection that sends anything else, without an answer. A connection that
 * comes before this side's open() waits for it. `stripe` numbers the sockets of one link: a link
 * has one, 0.
 *
 * Then messages flow in both directions, each a header and its payload, with nothing between them:
 *
 *   message   size 4 | check 4 | tag 24 | payload[size]
 *
 * `check` is a constant plus the message's number on this socket and direction, modulo 2^16. It
 * detects a stream that has lost its framing. close() ends the connection.
 *
 * Events
 * ------
 * The driver's epoll wakes a sleeping rank. The endpoint's own epoll reports the socket. It holds
 * the listeners, the timer, the unfinished connections and, for their hang-up alone, the links. The
 * endpoint polls it while it connects, before a sleep, and else once in 32 calls of advance(). A
 * link that a call waits for detects the end of its connection by itself, in recv().
 *
 * Watching a socket costs time: each arriving segment takes the locks of all epolls that watch it,
 * whose cache lines come from the other core. After 256 calls of advance() without a sleep, the
 * links leave both epolls. They return before the next sleep.
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
 *   tcp_stream     one socket: framing, queue, buffers
 *   tcp_link       links and their progress
 *   tcp_interface  network interfaces, addresses as text
 *   tcp_card       the card and the hello
 *   tcp_timer      one timer for all deadlines
 *   tcp_strangers  connections whose hello has not arrived, or came before open()
 *   tcp_listener   one listening socket an interface
 *   tcp_handshake  connections of links that are not open yet
 *   tcp            the endpoint
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/error.h"
#include "transports/event_source.h"
#include "transports/tcp/card.h"
#include "transports/tcp/handshake.h"
#include "transports/tcp/interface.h"
#include "transports/tcp/link.h"
#include "transports/tcp/listener.h"
#include "transports/tcp/strangers.h"
#include "transports/transports.h"

/* Picoseconds a byte: about 2.5 GB/s over the loopback, 10 Gbit/s between hosts. */
#define COST_HERE 400
#define COST_THERE 800

struct endpoint {
	struct rd_tcp_endpoint shared;
	struct rd_tcp_listeners listeners;
	struct rd_tcp_strangers strangers;
	struct rd_event_source timer;
};

static struct endpoint *endpoint_of(struct rd_endpoint *base)
{
	return (struct endpoint *)base;
}

static int tcp_reach(const struct rd_place *here, const struct rd_place *there)
{
	return rd_place_same_host(here, there) ? COST_HERE : COST_THERE;
}

static bool timer_handle(void *owner)
{
	struct endpoint *endpoint = owner;
	int unfinished = endpoint->shared.unfinished;

	if (!rd_tcp_timer_expired(&endpoint->shared.timer))
		return false;
	rd_tcp_listeners_wake(&endpoint->listeners);
	rd_tcp_handshake_check(&endpoint->shared);
	return unfinished > 0;
}

static int endpoint_start(struct endpoint *endpoint)
{
	struct rd_tcp_endpoint *shared = &endpoint->shared;
	int err;

	shared->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	shared->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (shared->epoll_fd < 0 || shared->timer.fd < 0)
		return rd_fail_errno("cannot make a socket");
	err = rd_tcp_listeners_start(&endpoint->listeners);
	if (err)
		return err;
	if (rd_event_watch(
		    shared->epoll_fd, EPOLL_CTL_ADD, shared->timer.fd, EPOLLIN, &endpoint->timer) ||
		rd_event_watch(shared->local->epoll_fd, EPOLL_CTL_ADD, shared->epoll_fd,
			EPOLLIN | EPOLLET, NULL))
		return rd_fail_errno("cannot watch a socket");
	if (getrandom(shared->card.key, RD_TCP_KEY_SIZE, 0) != RD_TCP_KEY_SIZE)
		return rd_fail_errno("cannot draw a random key");
	return 0;
}

static void tcp_close(struct rd_endpoint *base)
{
	struct endpoint *endpoint = endpoint_of(base);
	struct rd_tcp_endpoint *shared;

	if (!endpoint)
		return;
	shared = &endpoint->shared;
	rd_tcp_listeners_close(&endpoint->listeners);
	rd_tcp_links_close(shared);
	rd_tcp_strangers_finish(&endpoint->strangers);
	if (shared->timer.fd >= 0)
		close(shared->timer.fd);
	if (shared->epoll_fd >= 0)
		close(shared->epoll_fd);
	free(endpoint);
}

/* No shutdown(), and no epoll_ctl(): sockets and epolls are the parent's as well. */
static void tcp_abandon(struct rd_endpoint *base)
{
	struct endpoint *endpoint = endpoint_of(base);

	rd_tcp_listeners_close(&endpoint->listeners);
	rd_tcp_strangers_finish(&endpoint->strangers);
	rd_tcp_links_abandon(&endpoint->shared);
	close(endpoint->shared.timer.fd);
	close(endpoint->shared.epoll_fd);
	free(endpoint);
}

static int tcp_listen(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char card[RD_CARD_MAX], size_t *card_size)
{
	struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
	struct rd_tcp_endpoint *shared;
	int err;

	if (!endpoint)
		return rd_fail(RONDO_MEMORY, "no memory for a tcp endpoint");
	shared = &endpoint->shared;
	shared->base.transport = &rd_transport_tcp;
	shared->local = local;
	shared->timer.fd = shared->epoll_fd = -1;
	endpoint->timer = (struct rd_event_source){ timer_handle, endpoint };
	rd_tcp_listeners_init(&endpoint->listeners, shared, &endpoint->strangers);
	endpoint->strangers = (struct rd_tcp_strangers){
		.local = local,
		.key = shared->card.key,
		.epoll_fd = &shared->epoll_fd,
		.admit = rd_tcp_handshake_admit,
		.owner = shared,
	};
	err = rd_interfaces_choose(&shared->interfaces, local->settings);
	if (!err)
		err = endpoint_start(endpoint);
	if (err) {
		tcp_close(&shared->base);
		return err;
	}
	memcpy(card, &shared->card, sizeof(shared->card));
	*card_size = sizeof(shared->card);
	*result = &shared->base;
	return 0;
}

static int tcp_open(struct rd_endpoint *base, int peer, int channel, const unsigned char *bytes,
	size_t size, struct rd_link **result)
{
	struct endpoint *endpoint = endpoint_of(base);
	struct rd_tcp_link *link;
	struct rd_tcp_card card;
	int err = rd_tcp_card_read(&card, bytes, size, peer);

	if (err)
		return err;
	assert(peer != endpoint->shared.local->rank && channel < RD_TCP_CHANNELS_MAX);
	link = rd_tcp_link_create(&endpoint->shared, peer, channel, &card);
	if (!link)
		return RONDO_MEMORY;
	rd_tcp_handshake_begin(link, &endpoint->strangers);
	*result = &link->base;
	return 0;
}

const struct rd_transport rd_transport_tcp = {
	.abi = RD_TRANSPORT_ABI,
	.name = "tcp",
	.reach = tcp_reach,
	.listen = tcp_listen,
	.open = tcp_open,
	.advance = rd_tcp_links_advance,
	.arm = rd_tcp_links_arm,
	.disarm = rd_tcp_links_disarm,
	.close = tcp_close,
	.abandon = tcp_abandon,
};
