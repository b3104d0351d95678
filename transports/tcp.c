/*
 * tcp: messages over TCP sockets, between any two ranks that have an IP route, IPv4 or IPv6.
 *
 * The wire format
 * ---------------
 * All numbers are little endian, all structs travel as they lie in memory, without gaps.
 *
 * A rank listens on one socket, bound to one address: that of RONDO_INTERFACE, or of the interface
 * that leads to MASTER_ADDR. Its card says where, and carries a key that is drawn at random for
 * each endpoint; cards travel by the rendezvous, so whoever knows the key was told by this very
 * job.
 *
 *   card      magic 4 | version 2 | family 2 (4, 6) | port 2 | 0 2 | address 16 | key 16
 *
 * Of two ranks the higher connects to the lower, one connection a channel. Each side proves itself
 * by the key of the other's card, before either sends a message:
 *
 *   connector                                                acceptor
 *     hello (acceptor's key)  ------------------------------>  key, comm, ranks and channel right?
 *     key, comm, ranks right?  <------------------------------ hello (connector's key)
 *     messages  <------------------------------------------->  messages
 *
 *   hello     magic 4 | version 2 | stripe 2 | from 4 | to 4 | channel 4 | 0 4 | comm 8 | key 16
 *
 * An acceptor closes the connection of whoever says anything else; it says nothing to strangers.
 * A connection that comes before this side's open() waits for it. `stripe` numbers the sockets of
 * one link; there is one today: 0.
 *
 * Then messages flow in both directions, each a header and its payload, with nothing between them:
 *
 *   message   size 4 | check 4 | tag 24 | payload[size]
 *
 * `check` is a constant plus the number of the message on this socket and direction, modulo 2^16: a
 * stream that got out of step does not go unnoticed. A peer that is done closes its end.
 *
 * News
 * ----
 * The driver's epoll wakes a sleeping rank. Which socket it was is told by an epoll of our own, in
 * which the listener, the unfinished connections and, for their hang-up alone, the links live. It
 * is asked while connections are being made, before a sleep, and otherwise once in a while: a link
 * that someone waits for is read anyway, and finds out by itself.
 *
 * Taking in
 * ---------
 * What the sockets of a connection hold is less than a message can be, so that a sender may have to
 * wait for its reader. While recv() does not ask for a link's next message, advance() therefore
 * takes it into the link's own buffer, from where it is copied once more. To lose landing in place
 * only where ranks could otherwise wait for each other, it does so when our own output is stuck,
 * once in a while when nothing else moves, and before a sleep.
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
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "log.h"
#include "tcp_card.h"
#include "tcp_interface.h"
#include "tcp_wire.h"
#include "transports.h"

/* Connections that have not proved themselves, beyond those that this comm may make: when there
   are more, the oldest goes. */
#define STRANGERS_MAX 64

/* Calls of advance() for one look at the news, while all is well. */
#define NEWS_INTERVAL 32

/* What close() gives queued messages to leave, when their reader is slow. */
#define LINGER_MS 1000

/* Picoseconds a byte: about 2.5 GB/s over the loopback, 10 Gbit/s between hosts. */
#define COST_HERE 400
#define COST_THERE 800

/* What to do when the epoll of our own has news of a socket. */
struct source {
	void (*take)(void *owner);
	void *owner;
};

/* A connection on which a hello is due. */
struct stranger {
	struct source source;
	struct endpoint *endpoint;
	int fd;
	struct stranger *next;
	size_t size; /* bytes of hello that have come; all: the key was right */
	struct rd_tcp_hello hello;
};

enum state {
	AWAITED, /* the peer will connect */
	CONNECTING, /* to the peer */
	GREETED, /* it is connected and has our hello, its own is due */
	OPEN,
};

struct link {
	struct rd_link base;
	struct endpoint *endpoint;
	struct source source;
	struct link *next;
	enum state state;
	uint8_t key[RD_TCP_KEY_SIZE]; /* of the peer's card */
	struct sockaddr_storage address; /* of the peer */
	struct rd_tcp_hello hello; /* the peer's, as far as it has come */
	size_t hello_size;
	bool hung_up;
	struct link *next_queued;
	bool queued; /* is on the endpoint's list of links with output to push */
	struct rd_wire wire; /* wire.fd is the link's socket from the start */
};

struct endpoint {
	struct rd_endpoint base;
	const struct rd_local *local;
	struct rd_interface interface;
	struct rd_tcp_card card;
	struct source source; /* the listener */
	int listener, news;
	unsigned calls; /* of advance() since the last look at the news */
	struct link *links;
	struct link *taking; /* the one to take in from next; NULL: the first */
	struct link *queued;
	int unfinished; /* links neither open nor failed */
	bool hung_up; /* some link is, and may have messages left */
	struct stranger *strangers; /* the oldest first */
	int stranger_count;
	struct stranger *early; /* proved; open() has not been called for them */
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
	return rd_wire_reserve(&link_of(base)->wire, size);
}

static void link_commit(struct rd_link *base, const struct rd_tag *tag, size_t size)
{
	rd_wire_commit(&link_of(base)->wire, tag, size);
	note_queue(link_of(base));
}

static bool link_send(struct rd_link *base, const struct rd_tag *tag, const void *from, size_t size)
{
	bool accepted;

	if (!base->ready || base->error)
		return false;
	accepted = rd_wire_send(&link_of(base)->wire, tag, from, size);
	note_queue(link_of(base));
	return accepted;
}

static bool link_recv(struct rd_link *base, void *into, size_t size, struct rd_message *message)
{
	if (!base->ready || base->error)
		return false;
	return rd_wire_recv(&link_of(base)->wire, into, size, message);
}

static void link_release(struct rd_link *base)
{
	rd_wire_release(&link_of(base)->wire);
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

		moved |= rd_wire_flush(&link->wire);
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
	return link->state == OPEN && rd_wire_take_in(&link->wire);
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
		rd_wire_check(&link->wire);
		failed |= link->base.error != 0;
		endpoint->hung_up |= link->base.error == 0;
	}
	return failed;
}

/* ---- Connections being made --------------------------------------------------------------- */

static int watch(int epoll_fd, int operation, int fd, uint32_t events, struct source *source)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	return epoll_ctl(epoll_fd, operation, fd, &event);
}

/* The link fails before it was open. */
static void link_fail(struct link *link, int error, const char *doing, int number)
{
	char where[RD_ADDRESS_TEXT];

	link->base.error = error;
	snprintf(link->base.story, sizeof(link->base.story), "%s at %s%s%s", doing,
		rd_address_text(&link->address, where), number ? ": " : "",
		number ? strerror(number) : "");
	link->endpoint->unfinished--;
	if (link->wire.fd >= 0)
		watch(link->endpoint->news, EPOLL_CTL_DEL, link->wire.fd, 0, NULL);
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
	memcpy(hello->key, link->key, RD_TCP_KEY_SIZE);
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

static bool hello_proves(const struct endpoint *endpoint, const struct rd_tcp_hello *hello)
{
	return rd_tcp_hello_sound(hello, endpoint->card.key) &&
	       hello->to == endpoint->local->rank && hello->from < endpoint->local->size;
}

static bool hello_fits(const struct link *link, const struct rd_tcp_hello *hello)
{
	return hello->from == link->base.peer && hello->channel == link->base.channel &&
	       hello->comm_id == link->endpoint->local->comm_id;
}

/* Both sides have proved themselves: messages may flow. */
static void link_open(struct link *link, int fd)
{
	struct endpoint *endpoint = link->endpoint;
	struct epoll_event wake = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };
	int number = 0, yes = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	/* In the news only for its end: both are edge-triggered, so neither tells of it twice. */
	watch(endpoint->news, EPOLL_CTL_DEL, fd, 0, NULL);
	if (watch(endpoint->news, EPOLL_CTL_ADD, fd, EPOLLRDHUP | EPOLLET, &link->source) ||
		epoll_ctl(endpoint->local->epoll_fd, EPOLL_CTL_ADD, fd, &wake))
		number = errno;
	else if (rd_wire_init(&link->wire, fd, &link->base))
		number = ENOMEM;
	link->wire.fd = fd;
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

static void stranger_free(struct stranger *stranger)
{
	if (stranger->fd >= 0)
		close(stranger->fd);
	free(stranger);
}

/* Turns the connection away. */
static void stranger_drop(struct stranger *stranger, const char *why)
{
	struct sockaddr_storage address = { 0 };
	socklen_t size = sizeof(address);
	char where[RD_ADDRESS_TEXT];

	if (rd_log_on(RD_INFO, RD_NET) &&
		getpeername(stranger->fd, (struct sockaddr *)&address, &size) == 0)
		rd_log(RD_INFO, RD_NET, "NET/Socket : Dropped a connection from %s: %s",
			rd_address_text(&address, where), why);
	stranger_free(stranger);
}

static void stranger_unlink(struct endpoint *endpoint, struct stranger *stranger)
{
	struct stranger **at = &endpoint->strangers;

	while (*at != stranger)
		at = &(*at)->next;
	*at = stranger->next;
	endpoint->stranger_count--;
	/* By hand: a fork may hold the socket, and with it its place in the epoll. */
	watch(endpoint->news, EPOLL_CTL_DEL, stranger->fd, 0, NULL);
}

/* A stranger has proved itself: it gets its link, or waits until open() makes that. */
static void stranger_welcome(struct endpoint *endpoint, struct stranger *stranger)
{
	const struct rd_tcp_hello *hello = &stranger->hello;

	for (struct link *link = endpoint->links; link; link = link->next) {
		if (link->base.peer != hello->from || link->base.channel != hello->channel)
			continue;
		if (link_accept(link, stranger->fd, hello)) {
			stranger->fd = -1;
			stranger_free(stranger);
		} else {
			stranger_drop(stranger, "not awaited");
		}
		return;
	}
	for (struct stranger *other = endpoint->early; other; other = other->next) {
		if (other->hello.from == hello->from && other->hello.channel == hello->channel) {
			stranger_drop(stranger, "it is here already");
			return;
		}
	}
	stranger->next = endpoint->early;
	endpoint->early = stranger;
}

static void stranger_news(void *owner)
{
	struct stranger *stranger = owner;
	struct endpoint *endpoint = stranger->endpoint;
	ssize_t size = recv(stranger->fd, (char *)&stranger->hello + stranger->size,
		sizeof(stranger->hello) - stranger->size, MSG_DONTWAIT);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size > 0) {
		stranger->size += (size_t)size;
		if (stranger->size < sizeof(stranger->hello))
			return;
	}
	stranger_unlink(endpoint, stranger);
	if (size <= 0)
		stranger_drop(stranger, "it left before its hello");
	else if (!hello_proves(endpoint, &stranger->hello))
		stranger_drop(stranger, "not a rank of this job");
	else
		stranger_welcome(endpoint, stranger);
}

static int strangers_most(const struct endpoint *endpoint)
{
	return STRANGERS_MAX + endpoint->local->size * endpoint->local->settings->channels;
}

static void listener_news(void *owner)
{
	struct endpoint *endpoint = owner;
	int fd = accept4(endpoint->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct stranger *stranger, **last = &endpoint->strangers;

	if (fd < 0)
		return;
	stranger = calloc(1, sizeof(*stranger));
	if (!stranger || watch(endpoint->news, EPOLL_CTL_ADD, fd, EPOLLIN, &stranger->source)) {
		free(stranger);
		close(fd);
		return;
	}
	if (endpoint->stranger_count >= strangers_most(endpoint)) {
		struct stranger *oldest = endpoint->strangers;

		stranger_unlink(endpoint, oldest);
		stranger_drop(oldest, "too many that have not said who they are");
	}
	stranger->source = (struct source){ stranger_news, stranger };
	stranger->endpoint = endpoint;
	stranger->fd = fd;
	while (*last)
		last = &(*last)->next;
	*last = stranger;
	endpoint->stranger_count++;
	stranger_news(stranger);
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
		link_fail(link, RONDO_UNREACHABLE, "cannot be reached", number);
		return;
	}
	link->state = GREETED;
	watch(link->endpoint->news, EPOLL_CTL_MOD, link->wire.fd, EPOLLIN, &link->source);
}

static void answer_read(struct link *link)
{
	ssize_t size = recv(link->wire.fd, (char *)&link->hello + link->hello_size,
		sizeof(link->hello) - link->hello_size, MSG_DONTWAIT);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size <= 0) {
		link_fail(link, RONDO_UNREACHABLE, "turned the connection away",
			size < 0 ? errno : 0);
		return;
	}
	link->hello_size += (size_t)size;
	if (link->hello_size < sizeof(link->hello))
		return;
	if (hello_proves(link->endpoint, &link->hello) && hello_fits(link, &link->hello))
		link_open(link, link->wire.fd);
	else
		link_fail(link, RONDO_PROTOCOL, "someone else answers", 0);
}

static void link_news(void *owner)
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
}

/* One event at a time: what an event leads to may free what the next one is about. */
static bool take_news(struct endpoint *endpoint)
{
	struct epoll_event event;
	const struct source *source;
	bool moved = false;

	endpoint->calls = 0;
	for (int i = 0; i < STRANGERS_MAX; i++) {
		if (epoll_wait(endpoint->news, &event, 1, 0) != 1)
			break;
		source = event.data.ptr;
		source->take(source->owner);
		moved = true;
	}
	return moved;
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
	return moved;
}

/* Sockets in the driver's epoll ring by themselves, for what comes after all that there was. */
static void tcp_arm(struct rd_endpoint *base)
{
	struct endpoint *endpoint = endpoint_of(base);

	take_news(endpoint);
	take_in_all(endpoint);
	if (endpoint->hung_up)
		check_hung_up(endpoint);
}

static void tcp_disarm(struct rd_endpoint *base)
{
	/* What woke the driver may be news. */
	endpoint_of(base)->calls = NEWS_INTERVAL;
}

/* ---- Cards, listening, connecting --------------------------------------------------------- */

static bool is_loopback(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *in = (const void *)address;
	const struct sockaddr_in6 *in6 = (const void *)address;

	if (address->ss_family == AF_INET)
		return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

/* Where the interface leads out, connections leave by it, whatever the routing table prefers. */
static int bind_outgoing(const struct rd_interface *interface, int fd, int family)
{
	int yes = 1;

	if (family != interface->address.ss_family || is_loopback(&interface->address))
		return 0;
	setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes));
	return bind(fd, (const struct sockaddr *)&interface->address, interface->address_size);
}

static void link_connect(struct link *link)
{
	struct endpoint *endpoint = link->endpoint;
	int family = link->address.ss_family;
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	link->wire.fd = fd;
	link->state = CONNECTING;
	if (fd < 0 || bind_outgoing(&endpoint->interface, fd, family) ||
		(connect(fd, (struct sockaddr *)&link->address, rd_address_size(family)) &&
			errno != EINPROGRESS) ||
		watch(endpoint->news, EPOLL_CTL_ADD, fd, EPOLLOUT, &link->source))
		link_fail(link, RONDO_UNREACHABLE, "cannot be reached", errno);
}

/* The peer may have been quicker. */
static void take_early(struct link *link)
{
	for (struct stranger **at = &link->endpoint->early; *at; at = &(*at)->next) {
		struct stranger *stranger = *at;

		if (stranger->hello.from != link->base.peer ||
			stranger->hello.channel != link->base.channel)
			continue;
		*at = stranger->next;
		if (link_accept(link, stranger->fd, &stranger->hello)) {
			stranger->fd = -1;
			stranger_free(stranger);
		} else {
			stranger_drop(stranger, "not awaited");
		}
		return;
	}
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
	};
	link->source = (struct source){ link_news, link };
	link->endpoint = endpoint;
	link->wire.fd = -1;
	memcpy(link->key, card.key, RD_TCP_KEY_SIZE);
	rd_tcp_card_address(&card, endpoint->interface.name, &link->address);
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

/* Listens on the interface's address; the kernel chooses the port. */
static int start_listening(struct endpoint *endpoint, const struct rd_local *local)
{
	struct rd_interface *interface = &endpoint->interface;
	struct sockaddr_storage address = interface->address;
	socklen_t size = sizeof(address);
	char where[RD_ADDRESS_TEXT];

	endpoint->news = epoll_create1(EPOLL_CLOEXEC);
	endpoint->listener =
		socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (endpoint->news < 0 || endpoint->listener < 0)
		return rd_fail_errno("cannot make a socket");
	if (bind(endpoint->listener, (struct sockaddr *)&address, interface->address_size) ||
		listen(endpoint->listener, SOMAXCONN) ||
		getsockname(endpoint->listener, (struct sockaddr *)&address, &size))
		return rd_fail_errno("cannot listen at %s (%s)", rd_address_text(&address, where),
			interface->name);
	if (watch(endpoint->news, EPOLL_CTL_ADD, endpoint->listener, EPOLLIN, &endpoint->source) ||
		watch(local->epoll_fd, EPOLL_CTL_ADD, endpoint->news, EPOLLIN | EPOLLET, NULL))
		return rd_fail_errno("cannot watch a socket");
	rd_tcp_card_fill(&endpoint->card, &address);
	if (getrandom(endpoint->card.key, RD_TCP_KEY_SIZE, 0) != RD_TCP_KEY_SIZE)
		return rd_fail_errno("cannot draw a random key");
	rd_log(RD_INFO, RD_NET, "NET/Socket : Using [0]%s:%s", interface->name,
		rd_address_text(&address, where));
	return 0;
}

/* ---- Closing ------------------------------------------------------------------------------ */

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* True: there is still output that has a reader. */
static bool output_waits(struct endpoint *endpoint)
{
	bool waits = false;

	flush_queued(endpoint);
	/* The peer may be closing too, and wait for us to take what nobody will read here. */
	for (struct link *link = endpoint->queued; link; link = link->next_queued)
		waits |= rd_wire_drain(&link->wire);
	return waits;
}

static void linger(struct endpoint *endpoint)
{
	int64_t deadline = now_ms() + LINGER_MS, left;
	struct epoll_event event;

	for (struct link *link = endpoint->queued; link; link = link->next_queued)
		watch(endpoint->news, EPOLL_CTL_MOD, link->wire.fd,
			EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &link->source);
	while (output_waits(endpoint) && (left = deadline - now_ms()) > 0)
		epoll_wait(endpoint->news, &event, 1, (int)left);
}

static void strangers_free(struct stranger *stranger)
{
	while (stranger) {
		struct stranger *next = stranger->next;

		stranger_free(stranger);
		stranger = next;
	}
}

static void links_free(struct link *link)
{
	while (link) {
		struct link *next = link->next;

		/* The end comes after the last byte. Bytes that nobody has read would make the
		   kernel reset the connection, and the peer lose what it has not read yet. */
		if (link->state == OPEN) {
			shutdown(link->wire.fd, SHUT_WR);
			rd_wire_drain(&link->wire);
		}
		rd_wire_finish(&link->wire);
		free(link);
		link = next;
	}
}

static void tcp_close(struct rd_endpoint *base)
{
	struct endpoint *endpoint = endpoint_of(base);

	if (!endpoint)
		return;
	if (endpoint->listener >= 0)
		close(endpoint->listener);
	linger(endpoint);
	strangers_free(endpoint->strangers);
	strangers_free(endpoint->early);
	links_free(endpoint->links);
	if (endpoint->news >= 0)
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
	endpoint->source = (struct source){ listener_news, endpoint };
	endpoint->listener = endpoint->news = -1;
	err = rd_interface_choose(&endpoint->interface, local->settings);
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
};
