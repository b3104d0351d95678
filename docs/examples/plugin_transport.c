/*
 * nearby: messages over Unix sockets, between ranks of one host. Small, and complete: it passes the
 * whole contract suite. A real transport would copy less; this one shows all duties.
 *
 *     cc -shared -fPIC plugin_transport.c $(pkg-config --cflags rondo) -o libnearby.so
 *
 * Each rank listens at an abstract address, which its card has. The higher of two ranks connects to
 * the lower, once per channel. Each sends the key of the comm, which its ranks alone know (hello).
 * Then messages follow, each a header and its payload.
 */
#define _GNU_SOURCE 1 /* accept4() */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <rondo/transport.h>

#define MAGIC 0x7962726165726e21
#define PENDING 64 /* most connections without a hello: a further one drops the oldest */
#define LINGER_MS 1000 /* bound on close()'s wait for messages to leave */

struct card {
	uint64_t magic;
	unsigned char address[16];
};

struct hello {
	uint64_t magic, comm_id;
	unsigned char key[RD_COMM_KEY_SIZE];
	int32_t from, to, channel, zero;
};

struct header {
	uint64_t size;
	struct rd_tag tag;
};

/* An accepted connection, until its hello has arrived and open() has made its link. */
struct pending {
	struct pending *next;
	int fd;
	size_t got; /* bytes of the hello */
	struct hello hello;
};

struct link {
	struct rd_link base; /* first: a struct rd_link * is a struct link * */
	struct link *next;
	struct endpoint *endpoint;
	struct card card; /* the peer's */
	int fd; /* -1: the peer has not connected yet */
	/* One message in each direction, header and payload; the rest is in the socket. */
	unsigned char *out, *in;
	size_t out_size, out_gone; /* out_size 0: there is room */
	size_t in_got;
};

struct endpoint {
	struct rd_endpoint base; /* first, likewise */
	const struct rd_local *local;
	struct card card;
	int listener;
	struct pending *pending; /* the oldest first */
	struct link *links;
};

static const struct rd_transport nearby;

static struct header *header_of(unsigned char *message)
{
	return (struct header *)message;
}

static void fail(struct link *link, int error, const char *reason)
{
	if (link->base.error)
		return;
	link->base.error = error;
	snprintf(link->base.reason, sizeof(link->base.reason), "%s", reason);
}

static void broken(struct link *link)
{
	fail(link, RONDO_BROKEN, "closed its connection");
}

/* Wakes a sleeping driver. Edge-triggered, so the transport needs no arm(). */
static int watch(const struct endpoint *endpoint, int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };

	if (epoll_ctl(endpoint->local->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return rd_fail_errno("cannot watch a socket");
	return 0;
}

/* ---- Messages ------------------------------------------------------------------------------- */

/* Both return true when bytes moved. */
static bool push(struct link *link)
{
	bool moved = false;

	while (link->out_gone < link->out_size && !link->base.error) {
		ssize_t sent = send(link->fd, link->out + link->out_gone,
			link->out_size - link->out_gone, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent > 0) {
			link->out_gone += (size_t)sent;
			moved = true;
		} else if (errno == EAGAIN) {
			break;
		} else if (errno != EINTR) {
			broken(link);
		}
	}
	if (link->out_gone == link->out_size)
		link->out_size = link->out_gone = 0;
	link->base.unsent = link->out_size > 0;
	return moved;
}

/* Bytes of the incoming message; before its header is whole, those of the header. */
static size_t in_size(const struct link *link)
{
	if (link->in_got < sizeof(struct header))
		return sizeof(struct header);
	return sizeof(struct header) + header_of(link->in)->size;
}

static bool in_is_whole(const struct link *link)
{
	return link->in_got >= sizeof(struct header) && link->in_got == in_size(link);
}

/* Never beyond the message at hand, so that the next one stays in the socket. */
static bool pull(struct link *link)
{
	bool moved = false;

	while (!in_is_whole(link) && !link->base.error) {
		ssize_t got = recv(link->fd, link->in + link->in_got, in_size(link) - link->in_got,
			MSG_DONTWAIT);

		if (got > 0) {
			link->in_got += (size_t)got;
			moved = true;
			/* A size from the wire is checked. */
			if (link->in_got == sizeof(struct header) &&
				header_of(link->in)->size > link->base.message_max)
				fail(link, RONDO_PROTOCOL, "sent a message that is too large");
		} else if (got < 0 && errno == EAGAIN) {
			break;
		} else if (got == 0 || errno != EINTR) {
			broken(link);
		}
	}
	return moved;
}

static void *nearby_reserve(struct rd_link *base, size_t size)
{
	struct link *link = (struct link *)base;

	(void)size;
	if (base->error || !base->ready)
		return NULL;
	push(link);
	return link->out_size > 0 || base->error ? NULL : link->out + sizeof(struct header);
}

static void nearby_commit(struct rd_link *base, const struct rd_tag *tag, size_t size)
{
	struct link *link = (struct link *)base;

	*header_of(link->out) = (struct header){ .size = size, .tag = *tag };
	link->out_size = sizeof(struct header) + size;
	push(link);
}

static bool nearby_recv(struct rd_link *base, void *into, size_t size, struct rd_message *message)
{
	struct link *link = (struct link *)base;

	/* `into` is only a wish: this transport returns messages where they lie. */
	(void)into;
	(void)size;
	if (base->error || !base->ready)
		return false;
	pull(link);
	if (base->error || !in_is_whole(link))
		return false;
	*message = (struct rd_message){
		.data = link->in + sizeof(struct header),
		.size = header_of(link->in)->size,
		.tag = &header_of(link->in)->tag,
	};
	return true;
}

static void nearby_release(struct rd_link *base)
{
	((struct link *)base)->in_got = 0;
}

static const struct rd_link_ops ops = {
	.reserve = nearby_reserve,
	.commit = nearby_commit,
	.recv = nearby_recv,
	.release = nearby_release,
};

/* ---- Connecting ----------------------------------------------------------------------------- */

static socklen_t address_of(const struct card *card, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	/* A name that begins with a NUL is no file: nothing is left behind. */
	memcpy(address->sun_path + 1, card->address, sizeof(card->address));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + sizeof(card->address));
}

/* A new connection has room for a whole hello; a shorter send means that it broke. */
static void send_hello(struct link *link)
{
	const struct rd_local *local = link->endpoint->local;
	struct hello hello = {
		.magic = MAGIC,
		.comm_id = local->comm_id,
		.from = local->rank,
		.to = link->base.peer,
		.channel = link->base.channel,
	};

	memcpy(hello.key, local->key, sizeof(hello.key));
	if (send(link->fd, &hello, sizeof(hello), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(hello))
		broken(link);
}

static bool is_for(const struct hello *hello, const struct endpoint *endpoint)
{
	return hello->magic == MAGIC && hello->to == endpoint->local->rank &&
	       memcmp(hello->key, endpoint->local->key, sizeof(hello->key)) == 0;
}

static bool is_from(const struct hello *hello, const struct link *link)
{
	return hello->from == link->base.peer && hello->channel == link->base.channel;
}

static void connect_to_peer(struct link *link)
{
	struct sockaddr_un address;
	socklen_t size = address_of(&link->card, &address);

	link->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (link->fd < 0 || connect(link->fd, (struct sockaddr *)&address, size) < 0)
		fail(link, RONDO_UNREACHABLE, "does not listen at its address");
	else if (watch(link->endpoint, link->fd))
		fail(link, RONDO_SYSTEM, "cannot be watched");
	else
		send_hello(link);
}

/* The rank that connected receives the other's hello, in the room for a message. */
static bool await_hello(struct link *link)
{
	const struct hello *hello = (const struct hello *)link->in;
	ssize_t got = recv(
		link->fd, link->in + link->in_got, sizeof(*hello) - link->in_got, MSG_DONTWAIT);

	if (got <= 0) {
		if (got == 0 || (errno != EAGAIN && errno != EINTR))
			fail(link, RONDO_BROKEN, "closed its connection before it was ready");
		return false;
	}
	link->in_got += (size_t)got;
	if (link->in_got < sizeof(*hello))
		return true;
	if (!is_for(hello, link->endpoint) || !is_from(hello, link) ||
		hello->comm_id != link->endpoint->local->comm_id)
		fail(link, RONDO_PROTOCOL, "is not the rank it should be");
	link->in_got = 0;
	link->base.ready = !link->base.error;
	return true;
}

static void pending_free(struct pending **at)
{
	struct pending *pending = *at;

	*at = pending->next;
	if (pending->fd >= 0)
		close(pending->fd);
	free(pending);
}

/* True: it is no longer needed. False: its hello is early, and waits for open(). */
static bool admit(struct endpoint *endpoint, struct pending *pending)
{
	for (struct link *link = endpoint->links; link; link = link->next) {
		if (!is_from(&pending->hello, link) || link->fd >= 0)
			continue;
		if (pending->hello.comm_id != endpoint->local->comm_id)
			return true;
		link->fd = pending->fd;
		pending->fd = -1;
		send_hello(link);
		link->base.ready = !link->base.error;
		return true;
	}
	return false;
}

static bool receive_hello(struct endpoint *endpoint, struct pending *pending)
{
	unsigned char *into = (unsigned char *)&pending->hello;
	ssize_t got;

	if (pending->got < sizeof(pending->hello)) {
		got = recv(pending->fd, into + pending->got, sizeof(pending->hello) - pending->got,
			MSG_DONTWAIT);
		if (got <= 0)
			return got == 0 || (errno != EAGAIN && errno != EINTR);
		pending->got += (size_t)got;
	}
	if (pending->got < sizeof(pending->hello))
		return false;
	return !is_for(&pending->hello, endpoint) || admit(endpoint, pending);
}

static void limit_pending(struct endpoint *endpoint)
{
	struct pending **oldest = NULL;
	int count = 0;

	for (struct pending **at = &endpoint->pending; *at; at = &(*at)->next) {
		if ((*at)->got == sizeof((*at)->hello))
			continue;
		oldest = oldest ? oldest : at;
		count++;
	}
	if (count > PENDING)
		pending_free(oldest);
}

static bool accept_one(struct endpoint *endpoint)
{
	int fd = accept4(endpoint->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct pending *pending = fd < 0 ? NULL : calloc(1, sizeof(*pending));
	struct pending **at = &endpoint->pending;

	if (!pending || watch(endpoint, fd)) {
		if (fd >= 0)
			close(fd);
		free(pending);
		return false;
	}
	pending->fd = fd;
	while (*at)
		at = &(*at)->next;
	*at = pending;
	limit_pending(endpoint);
	return true;
}

static bool nearby_advance(struct rd_endpoint *base)
{
	struct endpoint *endpoint = (struct endpoint *)base;
	struct pending **at = &endpoint->pending;
	bool moved = false;

	while (accept_one(endpoint))
		;
	while (*at) {
		if (receive_hello(endpoint, *at))
			pending_free(at);
		else
			at = &(*at)->next;
	}
	for (struct link *link = endpoint->links; link; link = link->next) {
		if (link->fd < 0 || link->base.error)
			continue;
		if (!link->base.ready) {
			moved |= await_hello(link);
			continue;
		}
		moved |= push(link);
		/* Takes in one message before recv() requests it: plans rely on that. */
		moved |= pull(link);
	}
	return moved;
}

/* ---- Endpoints ------------------------------------------------------------------------------ */

static int nearby_reach(const struct rd_place *here, const struct rd_place *there)
{
	/* Between shm (100) and tcp (400). */
	return rd_place_same_host(here, there) && here->uid == there->uid ? 200 : -1;
}

static int nearby_open(struct rd_endpoint *base, int peer, int channel, const unsigned char *card,
	size_t card_size, struct rd_link **out)
{
	struct endpoint *endpoint = (struct endpoint *)base;
	size_t message_max = base->message_max;
	struct link *link;

	if (card_size != sizeof(struct card) || memcmp(card, &endpoint->card.magic, 8) != 0)
		return rd_fail(RONDO_PROTOCOL, "the card of rank %d is none of nearby's", peer);
	link = calloc(1, sizeof(*link));
	if (!link)
		return rd_fail(RONDO_MEMORY, "no memory for a link");
	link->base = (struct rd_link){
		.ops = &ops,
		.transport = &nearby,
		.peer = peer,
		.channel = channel,
		.message_max = message_max,
	};
	link->endpoint = endpoint;
	memcpy(&link->card, card, sizeof(link->card));
	link->fd = -1;
	/* The endpoint owns it from here on, also after an error. */
	link->next = endpoint->links;
	endpoint->links = link;
	link->out = malloc(sizeof(struct header) + message_max);
	link->in = malloc(sizeof(struct header) + sizeof(struct hello) + message_max);
	if (!link->out || !link->in)
		return rd_fail(RONDO_MEMORY, "no memory for a link");
	if (endpoint->local->rank > peer)
		connect_to_peer(link);
	*out = &link->base;
	return 0;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Sends the committed message. The peer may do the same at once, so this also reads, for room. */
static void linger(struct link *link, int64_t deadline)
{
	unsigned char bytes[4096];

	while (link->out_size > 0 && !link->base.error && now_ms() < deadline) {
		struct pollfd ready = { .fd = link->fd, .events = POLLIN | POLLOUT };

		poll(&ready, 1, 10);
		push(link);
		while (recv(link->fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			;
	}
}

static void nearby_close(struct rd_endpoint *base)
{
	struct endpoint *endpoint = (struct endpoint *)base;
	int64_t deadline = now_ms() + LINGER_MS;

	for (struct link *link = endpoint->links; link; link = link->next)
		linger(link, deadline);
	while (endpoint->pending)
		pending_free(&endpoint->pending);
	while (endpoint->links) {
		struct link *link = endpoint->links;

		endpoint->links = link->next;
		if (link->fd >= 0)
			close(link->fd);
		free(link->out);
		free(link->in);
		free(link);
	}
	if (endpoint->listener >= 0)
		close(endpoint->listener);
	free(endpoint);
}

static int start_listening(struct endpoint *endpoint)
{
	struct sockaddr_un address;
	socklen_t size;

	endpoint->card.magic = MAGIC;
	if (getrandom(endpoint->card.address, sizeof(endpoint->card.address), 0) < 0)
		return rd_fail_errno("getrandom");
	size = address_of(&endpoint->card, &address);
	endpoint->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (endpoint->listener < 0 ||
		bind(endpoint->listener, (struct sockaddr *)&address, size) < 0 ||
		listen(endpoint->listener, SOMAXCONN) < 0)
		return rd_fail_errno("cannot listen");
	return watch(endpoint, endpoint->listener);
}

static int nearby_listen(struct rd_endpoint **out, const struct rd_local *local,
	unsigned char card[RD_CARD_MAX], size_t *card_size)
{
	struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int err;

	if (!endpoint)
		return rd_fail(RONDO_MEMORY, "no memory for an endpoint");
	endpoint->base.transport = &nearby;
	endpoint->base.message_max = (size_t)rd_number(local->settings, "RONDO_PIECE");
	endpoint->local = local;
	endpoint->listener = -1;
	err = start_listening(endpoint);
	if (err) {
		nearby_close(&endpoint->base);
		return err;
	}
	memcpy(card, &endpoint->card, sizeof(endpoint->card));
	*card_size = sizeof(endpoint->card);
	*out = &endpoint->base;
	return 0;
}

static const struct rd_transport nearby = {
	.abi = RD_TRANSPORT_ABI,
	.name = "nearby",
	.reach = nearby_reach,
	.listen = nearby_listen,
	.open = nearby_open,
	.advance = nearby_advance,
	.close = nearby_close,
};

RONDO_PLUGIN_TRANSPORTS(&nearby);
