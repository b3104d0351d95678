/*
 * tcp: messages over TCP sockets, between any two ranks that have an IP route, IPv4 or IPv6.
 *
 * The wire format
 * ---------------
 * All numbers are little endian. Structs travel as they lie in memory, without gaps.
 *
 * A rank listens on one socket an interface, bound to one address there: on each interface that
 * RONDO_INTERFACE names, or on the one that leads to MASTER_ADDR and, in reserve, on the others
 * that lead out. Its card lists the addresses, and carries a key that is drawn at random for each
 * endpoint. Cards travel through the rendezvous, so only ranks of this job hold the key.
 *
 *   card      magic 4 | version 2 | addresses 1 | of which shared 1 | key 16 | address[8]
 *   address   family 2 (4, 6) | port 2 | 0 4 | bytes 16
 *
 * The higher rank of a pair connects to the lower, one connection a channel. It tries the lower
 * one's addresses in turn until one answers. Channel c begins with shared address c modulo their
 * number, so the channels spread over the interfaces that were named. Each side authenticates
 * itself by the key of the other's card, before either sends a message:
 *
 *   connector                                                acceptor
 *     hello (acceptor's key)  ------------------------------>  key, comm, ranks and channel right?
 *     key, comm, ranks right?  <------------------------------ hello (connector's key)
 *     messages  <------------------------------------------->  messages
 *
 *   hello     magic 4 | version 2 | stripe 2 | from 4 | to 4 | channel 4 | 0 4 | comm 8 | key 16
 *
 * An acceptor closes a connection that sends anything else, without an answer. A connection that
 * comes before this side's open() waits for it. `stripe` numbers the sockets of one link; there is
 * one today: 0.
 *
 * Then messages flow in both directions, each a header and its payload, with nothing between them:
 *
 *   message   size 4 | check 4 | tag 24 | payload[size]
 *
 * `check` is a constant plus the number of the message on this socket and direction, modulo 2^16.
 * It detects a stream that has lost its framing. A peer that is done closes its end.
 *
 * Events
 * ------
 * The driver's epoll wakes a sleeping rank. An epoll of tcp's own reports the socket. It holds the
 * listener, the unfinished connections and, for their hang-up alone, the links. The endpoint polls
 * it while it connects, before a sleep, and otherwise once in a while. A link that a call waits for
 * is read anyway, and detects the end of its connection by itself.
 *
 * Watching a socket costs time: each arriving segment takes the locks of all epolls that watch it,
 * whose cache lines come from the other core. After a time without a sleep the links therefore
 * leave both epolls, and return before the next one.
 *
 * Taking in
 * ---------
 * The socket buffers of a connection can be smaller than a message, so a sender may have to wait
 * for its reader. While recv() does not ask for a link's next message, advance() therefore reads it
 * into the link's own buffer, at the cost of one more copy. It does so only where ranks could
 * otherwise wait for each other: when this rank's output is stuck, once in a while when nothing
 * else moves, and before a sleep.
 */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transports/event_source.h"
#include "transports/tcp_card.h"
#include "transports/tcp_interface.h"
#include "transports/tcp_strangers.h"
#include "transports/tcp_stream.h"
#include "transports/transports.h"

/* Fewer bytes are copied behind their header: one stretch costs the kernel less than two. */
#define GATHER_MIN 1024

/* Calls of advance() for one look at the news, while all is well. */
#define NEWS_INTERVAL 32

/* Pieces of news that one call takes. */
#define NEWS_MAX 64

/* Calls of advance() without a sleep after which links are watched no more: so many that to watch
   them again, two microseconds each, is little beside them. */
#define AWAKE_CALLS 256

/* The time that close() gives queued messages to leave, when their reader is slow. */
#define LINGER_MS 1000

/* How long a listener rests that has no descriptor for who comes; and how long peers are awaited
   while there is none. */
#define REST_MS 100
#define ACCEPT_MS 1000

/* The time for one of a peer's addresses before the next is tried. */
#define ATTEMPT_MS 1000

/* Picoseconds a byte: about 2.5 GB/s over the loopback, 10 Gbit/s between hosts. */
#define COST_HERE 400
#define COST_THERE 800

enum state {
	AWAITED, /* the peer will connect */
	CONNECTING, /* to the peer */
	GREETED, /* it is connected and has our hello, its own is due */
	OPEN,
};

struct link {
	struct rd_link base;
	struct endpoint *endpoint;
	struct rd_event_source source;
	struct link *next;
	enum state state;
	struct rd_tcp_card card; /* the peer's */
	int attempt; /* how many of its addresses were tried before the present one */
	unsigned failed; /* which those are: bits */
	int64_t until_ms; /* then the next is tried */
	struct sockaddr_storage address; /* of the peer: the present one */
	struct rd_tcp_hello hello; /* the peer's, as far as it has come */
	size_t hello_size;
	bool hung_up;
	bool watched; /* by the driver's epoll and ours */
	struct link *next_queued;
	bool queued; /* is on the endpoint's list of links with output to push */
	struct rd_tcp_stream wire; /* wire.fd is the link's socket from the start */
};

/* On one of our interfaces. */
struct listener {
	struct rd_event_source source;
	struct endpoint *endpoint;
	int fd;
	int64_t until_ms; /* it is not in the news; 0: it is */
	int64_t since_ms; /* it could accept nobody; 0: it can */
};

struct endpoint {
	struct rd_endpoint base;
	const struct rd_local *local;
	struct rd_interfaces interfaces;
	struct rd_tcp_card card;
	struct listener listeners[RD_INTERFACES_MAX]; /* of each interface */
	struct rd_event_source timer_source;
	int timer, news;
	unsigned calls; /* of advance() since the last look at the news */
	unsigned awake; /* calls of advance() since the links were watched */
	struct link *links;
	struct link *taking; /* the one to take in from next; NULL: the first */
	struct link *queued;
	int unfinished; /* links neither open nor failed */
	bool hung_up; /* some link is, and may have messages left */
	struct rd_tcp_strangers strangers;
};

static struct link *link_of(struct rd_link *base)
{
	return (struct link *)base; /* base comes first */
}

static struct endpoint *endpoint_of(struct rd_endpoint *base)
{
	return (struct endpoint *)base;
}

/* ---- Links that are open ------------------------------------------------------------------- */

/* After output: what the socket did not take is left to advance(). */
static void note_queue(struct link *link)
{
	if (link->wire.queued == 0 || link->queued)
		return;
	link->queued = true;
	link->next_queued = link->endpoint->queued;
	link->endpoint->queued = link;
}

static void *link_reserve(struct rd_link *base, size_t size)
{
	if (!base->ready || base->error)
		return NULL;
	return rd_tcp_stream_reserve(&link_of(base)->wire, size);
}

static void link_commit(struct rd_link *base, const struct rd_tag *tag, size_t size)
{
	rd_tcp_stream_commit(&link_of(base)->wire, tag, size);
	note_queue(link_of(base));
}

static bool link_send(struct rd_link *base, const struct rd_tag *tag, const void *from, size_t size)
{
	bool accepted;

	if (!base->ready || base->error)
		return false;
	accepted = rd_tcp_stream_send(&link_of(base)->wire, tag, from, size);
	note_queue(link_of(base));
	return accepted;
}

static bool link_recv(struct rd_link *base, void *into, size_t size, struct rd_message *message)
{
	if (!base->ready || base->error)
		return false;
	return rd_tcp_stream_recv(&link_of(base)->wire, into, size, message);
}

static void link_release(struct rd_link *base)
{
	rd_tcp_stream_release(&link_of(base)->wire);
}

static const struct rd_link_ops link_ops = {
	.reserve = link_reserve,
	.commit = link_commit,
	.send = link_send,
	.recv = link_recv,
	.release = link_release,
};

static bool flush_queued(struct endpoint *endpoint)
{
	struct link **at = &endpoint->queued;
	bool moved = false;

	while (*at) {
		struct link *link = *at;

		moved |= rd_tcp_stream_flush(&link->wire);
		if (link->wire.queued > 0 && !link->base.error) {
			at = &link->next_queued;
			continue;
		}
		*at = link->next_queued;
		link->queued = false;
	}
	return moved;
}

static bool take_in(struct link *link)
{
	return link->state == OPEN && rd_tcp_stream_take_in(&link->wire);
}

/* Of one link a call, in turn, lest a call costs as much as there are links. */
static bool take_in_next(struct endpoint *endpoint)
{
	struct link *link = endpoint->taking ? endpoint->taking : endpoint->links;

	if (!link)
		return false;
	endpoint->taking = link->next;
	return take_in(link);
}

static void take_in_all(struct endpoint *endpoint)
{
	for (struct link *link = endpoint->links; link; link = link->next)
		take_in(link);
}

/* A peer that hung up may have left messages: its link fails when they have been received. */
static bool check_hung_up(struct endpoint *endpoint)
{
	bool failed = false;

	endpoint->hung_up = false;
	for (struct link *link = endpoint->links; link; link = link->next) {
		if (!link->hung_up || link->base.error)
			continue;
		rd_tcp_stream_check(&link->wire);
		failed |= link->base.error != 0;
		endpoint->hung_up |= link->base.error == 0;
	}
	return failed;
}

/* ---- Connections being made --------------------------------------------------------------- */

/* The link fails before it was open. */
static void link_fail(struct link *link, int error, const char *activity, int number)
{
	char where[RD_ADDRESS_TEXT];

	link->base.error = error;
	snprintf(link->base.reason, sizeof(link->base.reason), "%s at %s%s%s", activity,
		rd_address_text(&link->address, where), number ? ": " : "",
		number ? strerror(number) : "");
	link->endpoint->unfinished--;
	if (link->wire.fd >= 0)
		rd_event_watch(link->endpoint->news, EPOLL_CTL_DEL, link->wire.fd, 0, NULL);
}

static void hello_fill(const struct link *link, struct rd_tcp_hello *hello)
{
	*hello = (struct rd_tcp_hello){
		.magic = RD_TCP_HELLO_MAGIC,
		.version = RD_TCP_VERSION,
		.from = link->endpoint->local->rank,
		.to = link->base.peer,
		.channel = link->base.channel,
		.comm_id = link->endpoint->local->comm_id,
	};
	memcpy(hello->key, link->card.key, RD_TCP_KEY_SIZE);
}

/* The first bytes on a new connection: they fit, or something is wrong with it. */
static bool hello_send(const struct link *link, int fd)
{
	struct rd_tcp_hello hello;
	ssize_t size;

	hello_fill(link, &hello);
	size = send(fd, &hello, sizeof(hello), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (size >= 0 && size != sizeof(hello))
		errno = EIO;
	return size == sizeof(hello);
}

static bool hello_fits(const struct link *link, const struct rd_tcp_hello *hello)
{
	return hello->from == link->base.peer && hello->channel == link->base.channel &&
	       hello->comm_id == link->endpoint->local->comm_id;
}

/* In the news only for its end: both are edge-triggered, so neither tells of it twice. */
static int link_watch(struct link *link)
{
	const struct endpoint *endpoint = link->endpoint;
	struct epoll_event wake = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };

	link->watched = true;
	if (rd_event_watch(endpoint->news, EPOLL_CTL_ADD, link->wire.fd, EPOLLRDHUP | EPOLLET,
		    &link->source))
		return -1;
	return epoll_ctl(endpoint->local->epoll_fd, EPOLL_CTL_ADD, link->wire.fd, &wake);
}

static void link_unwatch(struct link *link)
{
	link->watched = false;
	epoll_ctl(link->endpoint->local->epoll_fd, EPOLL_CTL_DEL, link->wire.fd, NULL);
	rd_event_watch(link->endpoint->news, EPOLL_CTL_DEL, link->wire.fd, 0, NULL);
}

/* Both sides have proved themselves: messages may flow. */
static void link_open(struct link *link, int fd)
{
	struct endpoint *endpoint = link->endpoint;
	int number = 0, yes = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	rd_event_watch(endpoint->news, EPOLL_CTL_DEL, fd, 0, NULL);
	if (rd_tcp_stream_init(&link->wire, fd, &link->base))
		number = ENOMEM;
	link->wire.fd = fd;
	if (!number && link_watch(link))
		number = errno;
	if (number) {
		link_fail(link, RONDO_SYSTEM, "could not be set up", number);
		return;
	}
	link->state = OPEN;
	link->base.ready = true;
	endpoint->unfinished--;
}

/* Takes the connection if it is the one that the link awaits. */
static bool link_accept(struct link *link, int fd, const struct rd_tcp_hello *hello)
{
	if (link->state != AWAITED || link->base.error || !hello_fits(link, hello))
		return false;
	if (hello_send(link, fd)) {
		link_open(link, fd);
		return true;
	}
	link_fail(link, RONDO_BROKEN, "lost its connection", errno);
	return false;
}

/* A stranger has proved itself: its link, if that is open, takes the connection or refuses it. */
static enum rd_tcp_welcome welcome(void *owner, int fd, const struct rd_tcp_hello *hello)
{
	struct endpoint *endpoint = owner;

	for (struct link *link = endpoint->links; link; link = link->next)
		if (link->base.peer == hello->from && link->base.channel == hello->channel)
			return link_accept(link, fd, hello) ? RD_TCP_TAKEN : RD_TCP_REFUSED;
	return RD_TCP_EARLY;
}

static void set_timer(struct endpoint *endpoint);

/* An awaited peer cannot connect. */
static void fail_awaited(struct endpoint *endpoint, int number)
{
	for (struct link *link = endpoint->links; link; link = link->next) {
		if (link->state != AWAITED || link->base.error)
			continue;
		link_fail(link, RONDO_SYSTEM, "", number);
		snprintf(link->base.reason, sizeof(link->base.reason),
			"its connection could not be accepted: %s", strerror(number));
	}
}

/* No descriptors, for one: the connections in the backlog would wake the epoll without end. */
static void rest_listener(struct listener *listener, int number)
{
	struct endpoint *endpoint = listener->endpoint;
	int64_t now_ms = rd_clock_ms();

	if (listener->since_ms == 0) {
		rd_log(RD_WARN, RD_NET, "NET/Socket : rank %d cannot accept a connection: %s",
			endpoint->local->rank, strerror(number));
		listener->since_ms = now_ms;
	}
	if (now_ms - listener->since_ms >= ACCEPT_MS)
		fail_awaited(endpoint, number);
	rd_event_watch(endpoint->news, EPOLL_CTL_DEL, listener->fd, 0, NULL);
	listener->until_ms = now_ms + REST_MS;
	set_timer(endpoint);
}

static void wake_listener(struct listener *listener)
{
	if (listener->until_ms == 0 || rd_clock_ms() < listener->until_ms)
		return;
	if (rd_event_watch(listener->endpoint->news, EPOLL_CTL_ADD, listener->fd, EPOLLIN,
		    &listener->source))
		listener->until_ms = rd_clock_ms() + REST_MS;
	else
		listener->until_ms = 0;
}

static bool listener_news(void *owner)
{
	struct listener *listener = owner;
	int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		listener->since_ms = 0;
		return rd_tcp_strangers_add(&listener->endpoint->strangers, fd);
	}
	if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
		rest_listener(listener, errno);
	return false;
}

/* ---- Connecting ---------------------------------------------------------------------------- */

/* Which of the card's addresses is tried as which: the shared ones first, each channel beginning
   with another of them. */
static int address_of_attempt(const struct link *link, int attempt)
{
	int shared = link->card.shared;

	return attempt < shared ? (link->base.channel + attempt) % shared : attempt;
}

/* Where an interface leads out, connections leave by it, whatever the routing table prefers: by the
   one on the address's own network; else by the one that is tried as this one is. */
static const struct rd_interface *way_out(const struct link *link)
{
	const struct rd_interfaces *ours = &link->endpoint->interfaces;
	int index = address_of_attempt(link, link->attempt);

	for (int i = 0; i < ours->count; i++)
		if (rd_interface_is_near(&ours->at[i], &link->address))
			return &ours->at[i];
	return index < ours->count ? &ours->at[index] : &ours->at[0];
}

static int bind_outgoing(const struct rd_interface *interface, int fd, int family)
{
	int yes = 1;

	if (family != interface->address.ss_family || rd_address_is_loopback(&interface->address))
		return 0;
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes));
	return bind(fd, (const struct sockaddr *)&interface->address, interface->address_size);
}

/* Has the timer ring once the oldest attempt that may be followed by another has had its time, or a
   listener its rest. */
static void set_timer(struct endpoint *endpoint)
{
	struct itimerspec when = { 0 };
	int64_t least_ms = INT64_MAX, left_ms;

	for (const struct link *link = endpoint->links; link; link = link->next)
		if (link->state == CONNECTING && !link->base.error && link->until_ms < least_ms)
			least_ms = link->until_ms;
	for (int i = 0; i < RD_INTERFACES_MAX; i++)
		if (endpoint->listeners[i].until_ms && endpoint->listeners[i].until_ms < least_ms)
			least_ms = endpoint->listeners[i].until_ms;
	if (least_ms == INT64_MAX)
		return;
	left_ms = least_ms - rd_clock_ms();
	if (left_ms < 1)
		left_ms = 1;
	when.it_value.tv_sec = left_ms / 1000;
	when.it_value.tv_nsec = left_ms % 1000 * 1000000;
	timerfd_settime(endpoint->timer, 0, &when, NULL);
}

/* Begins an attempt at one address. Returns 0, or an errno. */
static int attempt_connect(struct link *link)
{
	struct endpoint *endpoint = link->endpoint;
	int index = address_of_attempt(link, link->attempt), family, fd;

	rd_tcp_card_address(&link->card, index, endpoint->interfaces.at[0].name, &link->address);
	family = link->address.ss_family;
	fd = link->wire.fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	link->state = CONNECTING;
	link->hello_size = 0;
	link->until_ms = INT64_MAX;
	if (fd < 0 || bind_outgoing(way_out(link), fd, family) ||
		(connect(fd, (struct sockaddr *)&link->address, rd_address_size(family)) &&
			errno != EINPROGRESS) ||
		rd_event_watch(endpoint->news, EPOLL_CTL_ADD, fd, EPOLLOUT, &link->source))
		return errno;
	if (link->attempt + 1 < link->card.count) {
		link->until_ms = rd_clock_ms() + ATTEMPT_MS;
		set_timer(endpoint);
	}
	return 0;
}

/* Returns whether another link to the same peer has logged this address. */
static bool is_known_dead(const struct link *link, int index)
{
	for (const struct link *other = link->endpoint->links; other; other = other->next)
		if (other != link && other->base.peer == link->base.peer &&
			other->failed >> index & 1)
			return true;
	return false;
}

static void abandon_attempt(struct link *link, const char *why)
{
	int index = address_of_attempt(link, link->attempt);
	char where[RD_ADDRESS_TEXT];

	if (!is_known_dead(link, index))
		rd_log(RD_WARN, RD_NET,
			"NET/Socket : rank %d does not reach rank %d at %s by %s (%s), and tries "
			"its next address",
			link->endpoint->local->rank, link->base.peer,
			rd_address_text(&link->address, where), way_out(link)->name, why);
	link->failed |= 1u << index;
	if (link->wire.fd >= 0) {
		rd_event_watch(link->endpoint->news, EPOLL_CTL_DEL, link->wire.fd, 0, NULL);
		close(link->wire.fd);
		link->wire.fd = -1;
	}
	link->attempt++;
}

/* The present attempt has failed: goes on to the peer's next address; after the last, so has the
 * link. */
static void link_retry(struct link *link, int error, const char *activity, int number)
{
	while (link->attempt + 1 < link->card.count) {
		abandon_attempt(link, number ? strerror(number) : activity);
		number = attempt_connect(link);
		if (!number)
			return;
		error = RONDO_UNREACHABLE;
		activity = "cannot be reached";
	}
	link_fail(link, error, activity, number);
}

static void link_connect(struct link *link)
{
	int number = attempt_connect(link);

	if (number)
		link_retry(link, RONDO_UNREACHABLE, "cannot be reached", number);
}

static bool timer_news(void *owner)
{
	struct endpoint *endpoint = owner;
	int unfinished = endpoint->unfinished;
	uint64_t rings;

	if (read(endpoint->timer, &rings, sizeof(rings)) < 0)
		return false;
	for (int i = 0; i < RD_INTERFACES_MAX; i++)
		wake_listener(&endpoint->listeners[i]);
	for (struct link *link = endpoint->links; link; link = link->next)
		if (link->state == CONNECTING && !link->base.error &&
			rd_clock_ms() >= link->until_ms)
			link_retry(link, RONDO_UNREACHABLE, "cannot be reached", ETIMEDOUT);
	set_timer(endpoint);
	return unfinished > 0;
}

static void connect_done(struct link *link)
{
	int number = 0;
	socklen_t size = sizeof(number);

	if (getsockopt(link->wire.fd, SOL_SOCKET, SO_ERROR, &number, &size))
		number = errno;
	if (number == 0 && !hello_send(link, link->wire.fd))
		number = errno;
	if (number) {
		link_retry(link, RONDO_UNREACHABLE, "cannot be reached", number);
		return;
	}
	link->state = GREETED;
	rd_event_watch(link->endpoint->news, EPOLL_CTL_MOD, link->wire.fd, EPOLLIN, &link->source);
}

static void answer_read(struct link *link)
{
	ssize_t size = recv(link->wire.fd, (char *)&link->hello + link->hello_size,
		sizeof(link->hello) - link->hello_size, MSG_DONTWAIT);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size <= 0) {
		link_retry(link, RONDO_UNREACHABLE, "turned the connection away",
			size < 0 ? errno : 0);
		return;
	}
	link->hello_size += (size_t)size;
	if (link->hello_size < sizeof(link->hello))
		return;
	if (rd_tcp_hello_proves(&link->hello, link->endpoint->card.key, link->endpoint->local) &&
		hello_fits(link, &link->hello))
		link_open(link, link->wire.fd);
	else
		link_retry(link, RONDO_PROTOCOL, "someone else answers", 0);
}

static bool link_news(void *owner)
{
	struct link *link = owner;

	switch (link->state) {
	case AWAITED:
		break;
	case CONNECTING:
		connect_done(link);
		break;
	case GREETED:
		answer_read(link);
		break;
	case OPEN:
		link->hung_up = link->endpoint->hung_up = true;
		break;
	}
	return true;
}

/* One event at a time: what an event leads to may free what the next one is about. True: a link has
   moved. */
static bool take_news(struct endpoint *endpoint)
{
	struct epoll_event event;
	const struct rd_event_source *source;
	bool moved = false;

	endpoint->calls = 0;
	for (int i = 0; i < NEWS_MAX; i++) {
		if (epoll_wait(endpoint->news, &event, 1, 0) != 1)
			break;
		source = event.data.ptr;
		moved |= source->handle(source->owner);
	}
	return moved;
}

/* Before a sleep. Those that are put back ring once for nothing, for there is room to write. */
static void watch_links(struct endpoint *endpoint)
{
	for (struct link *link = endpoint->links; link; link = link->next) {
		if (link->watched || link->state != OPEN || link->base.error || !link_watch(link))
			continue;
		link->base.error = RONDO_SYSTEM;
		snprintf(link->base.reason, sizeof(link->base.reason), "cannot be watched: %s",
			strerror(errno));
	}
	endpoint->awake = 0;
}

static void unwatch_links(struct endpoint *endpoint)
{
	for (struct link *link = endpoint->links; link; link = link->next)
		if (link->watched && link->state == OPEN)
			link_unwatch(link);
}

static bool tcp_advance(struct rd_endpoint *base)
{
	struct endpoint *endpoint = endpoint_of(base);
	bool look = endpoint->unfinished > 0 || ++endpoint->calls >= NEWS_INTERVAL;
	bool moved = false;

	if (endpoint->queued)
		moved |= flush_queued(endpoint);
	if (!moved && (look || endpoint->queued))
		moved |= take_in_next(endpoint);
	if (look)
		moved |= take_news(endpoint);
	if (endpoint->hung_up)
		moved |= check_hung_up(endpoint);
	if (++endpoint->awake == AWAKE_CALLS)
		unwatch_links(endpoint);
	return moved;
}

/* Sockets in the driver's epoll ring by themselves, for what comes after all that there was. */
static void tcp_arm(struct rd_endpoint *base)
{
	struct endpoint *endpoint = endpoint_of(base);

	watch_links(endpoint);
	take_news(endpoint);
	take_in_all(endpoint);
	if (endpoint->hung_up)
		check_hung_up(endpoint);
}

static void tcp_disarm(struct rd_endpoint *base)
{
	/* The driver's wake-up may be an event of ours. */
	endpoint_of(base)->calls = NEWS_INTERVAL;
}

/* ---- Cards, listening, connecting --------------------------------------------------------- */

/* The peer may have been quicker. */
static void take_early(struct link *link)
{
	struct rd_tcp_hello hello;
	int fd = rd_tcp_strangers_take(
		&link->endpoint->strangers, link->base.peer, link->base.channel, &hello);

	if (fd >= 0 && !link_accept(link, fd, &hello))
		rd_tcp_turn_away(fd, "not awaited");
}

static int tcp_open(struct rd_endpoint *base, int peer, int channel, const unsigned char *bytes,
	size_t size, struct rd_link **result)
{
	struct endpoint *endpoint = endpoint_of(base);
	struct link *link;
	struct rd_tcp_card card;
	int err = rd_tcp_card_read(&card, bytes, size, peer);

	if (err)
		return err;
	assert(peer != endpoint->local->rank && channel < RD_TCP_CHANNELS_MAX);
	link = calloc(1, sizeof(*link));
	if (!link)
		return rd_fail(RONDO_MEMORY, "no memory for a tcp link to rank %d", peer);
	link->base = (struct rd_link){
		.ops = &link_ops,
		.transport = base->transport,
		.peer = peer,
		.channel = channel,
		.message_max = endpoint->local->settings->piece_size,
		.send_min = GATHER_MIN,
	};
	link->source = (struct rd_event_source){ link_news, link };
	link->endpoint = endpoint;
	link->wire.fd = -1;
	link->card = card;
	rd_tcp_card_address(&card, link->base.channel % card.shared,
		endpoint->interfaces.at[0].name, &link->address);
	link->next = endpoint->links;
	endpoint->links = link;
	endpoint->unfinished++;
	if (peer < endpoint->local->rank)
		link_connect(link);
	else
		take_early(link);
	*result = &link->base;
	return 0;
}

/* Listens on the interface's address. The kernel chooses the port, which goes into the card. */
static int listen_at(struct endpoint *endpoint, int index)
{
	const struct rd_interface *interface = &endpoint->interfaces.at[index];
	struct listener *listener = &endpoint->listeners[index];
	struct sockaddr_storage address = interface->address;
	socklen_t size = sizeof(address);
	char where[RD_ADDRESS_TEXT];

	listener->fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener->fd < 0)
		return rd_fail_errno("cannot make a socket");
	if (bind(listener->fd, (struct sockaddr *)&address, interface->address_size) ||
		listen(listener->fd, SOMAXCONN) ||
		getsockname(listener->fd, (struct sockaddr *)&address, &size))
		return rd_fail_errno("cannot listen at %s (%s)", rd_address_text(&address, where),
			interface->name);
	if (rd_event_watch(endpoint->news, EPOLL_CTL_ADD, listener->fd, EPOLLIN, &listener->source))
		return rd_fail_errno("cannot watch a socket");
	rd_tcp_card_add(&endpoint->card, &address);
	rd_log(RD_INFO, RD_NET, "NET/Socket : %s [%d]%s:%s",
		index < endpoint->interfaces.shared ? "Using" : "In reserve", index,
		interface->name, rd_address_text(&address, where));
	return 0;
}

/* The interfaces in reserve on which it can listen. */
static void listen_in_reserve(struct endpoint *endpoint)
{
	struct rd_interfaces *interfaces = &endpoint->interfaces;
	int kept = interfaces->shared;

	for (int i = kept; i < interfaces->count; i++) {
		struct listener *listener = &endpoint->listeners[kept];

		interfaces->at[kept] = interfaces->at[i];
		if (!listen_at(endpoint, kept)) {
			kept++;
			continue;
		}
		rd_log(RD_INFO, RD_NET, "NET/Socket : %s", rondo_last_error());
		if (listener->fd >= 0)
			close(listener->fd);
		listener->fd = -1;
	}
	interfaces->count = kept;
}

static int start_listening(struct endpoint *endpoint, const struct rd_local *local)
{
	int err = 0;

	endpoint->news = epoll_create1(EPOLL_CLOEXEC);
	endpoint->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (endpoint->news < 0 || endpoint->timer < 0)
		return rd_fail_errno("cannot make a socket");
	rd_tcp_card_init(&endpoint->card);
	for (int i = 0; i < endpoint->interfaces.shared && !err; i++)
		err = listen_at(endpoint, i);
	if (err)
		return err;
	listen_in_reserve(endpoint);
	endpoint->card.shared = (uint8_t)endpoint->interfaces.shared;
	if (rd_event_watch(endpoint->news, EPOLL_CTL_ADD, endpoint->timer, EPOLLIN,
		    &endpoint->timer_source) ||
		rd_event_watch(
			local->epoll_fd, EPOLL_CTL_ADD, endpoint->news, EPOLLIN | EPOLLET, NULL))
		return rd_fail_errno("cannot watch a socket");
	if (getrandom(endpoint->card.key, RD_TCP_KEY_SIZE, 0) != RD_TCP_KEY_SIZE)
		return rd_fail_errno("cannot draw a random key");
	return 0;
}

/* ---- Closing ------------------------------------------------------------------------------ */

/* True: there is still output that has a reader. */
static bool output_waits(struct endpoint *endpoint)
{
	bool waits = false;

	flush_queued(endpoint);
	/* The peer may be closing too, and wait for us to take what nobody will read here. */
	for (struct link *link = endpoint->queued; link; link = link->next_queued)
		waits |= rd_tcp_stream_drain(&link->wire);
	return waits;
}

static void linger(struct endpoint *endpoint)
{
	int64_t deadline = rd_clock_ms() + LINGER_MS, left;
	struct epoll_event event;

	watch_links(endpoint);
	for (struct link *link = endpoint->queued; link; link = link->next_queued)
		rd_event_watch(endpoint->news, EPOLL_CTL_MOD, link->wire.fd,
			EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &link->source);
	while (output_waits(endpoint) && (left = deadline - rd_clock_ms()) > 0)
		epoll_wait(endpoint->news, &event, 1, (int)left);
}

static void links_free(struct link *link)
{
	while (link) {
		struct link *next = link->next;

		/* The end comes after the last byte. Bytes that nobody has read would make the
		   kernel reset the connection, and the peer lose what it has not read yet. */
		if (link->state == OPEN) {
			shutdown(link->wire.fd, SHUT_WR);
			rd_tcp_stream_drain(&link->wire);
		}
		rd_tcp_stream_finish(&link->wire);
		free(link);
		link = next;
	}
}

static void tcp_close(struct rd_endpoint *base)
{
	struct endpoint *endpoint = endpoint_of(base);

	if (!endpoint)
		return;
	for (int i = 0; i < RD_INTERFACES_MAX; i++)
		if (endpoint->listeners[i].fd >= 0)
			close(endpoint->listeners[i].fd);
	linger(endpoint);
	rd_tcp_strangers_finish(&endpoint->strangers);
	links_free(endpoint->links);
	if (endpoint->timer >= 0)
		close(endpoint->timer);
	if (endpoint->news >= 0)
		close(endpoint->news);
	free(endpoint);
}

/* No shutdown(), and no epoll_ctl(): sockets and epolls are the parent's as well. */
static void tcp_abandon(struct rd_endpoint *base)
{
	struct endpoint *endpoint = endpoint_of(base);

	for (int i = 0; i < RD_INTERFACES_MAX; i++)
		if (endpoint->listeners[i].fd >= 0)
			close(endpoint->listeners[i].fd);
	rd_tcp_strangers_finish(&endpoint->strangers);
	while (endpoint->links) {
		struct link *link = endpoint->links;

		endpoint->links = link->next;
		rd_tcp_stream_finish(&link->wire);
		free(link);
	}
	close(endpoint->timer);
	close(endpoint->news);
	free(endpoint);
}

/* ---- The transport ------------------------------------------------------------------------ */

static int tcp_reach(const struct rd_place *here, const struct rd_place *there)
{
	return rd_place_same_host(here, there) ? COST_HERE : COST_THERE;
}

static int tcp_listen(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char card[RD_CARD_MAX], size_t *card_size)
{
	struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int err;

	if (!endpoint)
		return rd_fail(RONDO_MEMORY, "no memory for a tcp endpoint");
	endpoint->base.transport = &rd_transport_tcp;
	endpoint->local = local;
	for (int i = 0; i < RD_INTERFACES_MAX; i++) {
		endpoint->listeners[i].source =
			(struct rd_event_source){ listener_news, &endpoint->listeners[i] };
		endpoint->listeners[i].endpoint = endpoint;
		endpoint->listeners[i].fd = -1;
	}
	endpoint->timer_source = (struct rd_event_source){ timer_news, endpoint };
	endpoint->timer = endpoint->news = -1;
	endpoint->strangers = (struct rd_tcp_strangers){
		.local = local,
		.key = endpoint->card.key,
		.news = &endpoint->news,
		.welcome = welcome,
		.owner = endpoint,
	};
	err = rd_interfaces_choose(&endpoint->interfaces, local->settings);
	if (!err)
		err = start_listening(endpoint, local);
	if (err) {
		tcp_close(&endpoint->base);
		return err;
	}
	memcpy(card, &endpoint->card, sizeof(endpoint->card));
	*card_size = sizeof(endpoint->card);
	*result = &endpoint->base;
	return 0;
}

const struct rd_transport rd_transport_tcp = {
	.abi = RD_TRANSPORT_ABI,
	.name = "tcp",
	.reach = tcp_reach,
	.listen = tcp_listen,
	.open = tcp_open,
	.advance = tcp_advance,
	.arm = tcp_arm,
	.disarm = tcp_disarm,
	.close = tcp_close,
	.abandon = tcp_abandon,
};
