#include "transports/tcp/handshake.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "transports/tcp/interface.h"

/* The time for one of a peer's addresses before the next is tried. */
#define ATTEMPT_MS 1000

/* ---- Both sides --------------------------------------------------------------------------- */

static void hello_fill(const struct rd_tcp_link *link, struct rd_tcp_hello *hello)
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

/* The socket buffer of a new connection has room for a hello: a short write is an error. */
static bool hello_send(const struct rd_tcp_link *link, int fd)
{
	struct rd_tcp_hello hello;
	ssize_t size;

	hello_fill(link, &hello);
	size = send(fd, &hello, sizeof(hello), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (size >= 0 && size != sizeof(hello))
		errno = EIO;
	return size == sizeof(hello);
}

static bool hello_fits(const struct rd_tcp_link *link, const struct rd_tcp_hello *hello)
{
	return hello->from == link->base.peer && hello->channel == link->base.channel &&
	       hello->comm_id == link->endpoint->local->comm_id;
}

/* Takes ownership of the connection if the link waits for it. */
static bool link_accept(struct rd_tcp_link *link, int fd, const struct rd_tcp_hello *hello)
{
	if (link->state != RD_TCP_LINK_AWAITED || link->base.error || !hello_fits(link, hello))
		return false;
	if (hello_send(link, fd)) {
		rd_tcp_link_open(link, fd);
		return true;
	}
	rd_tcp_link_fail(link, RONDO_BROKEN, "lost its connection", errno);
	return false;
}

/* ---- Connecting ---------------------------------------------------------------------------- */

/* Returns the index of the address that an attempt tries: the shared ones first. Each channel
   begins with another. */
static int address_of_attempt(const struct rd_tcp_link *link, int attempt)
{
	int shared = link->card.shared;

	return attempt < shared ? (link->base.channel + attempt) % shared : attempt;
}

/* Returns the interface by which the connection leaves, which may differ from the routing table:
   the one on the address's own network, else the one of the same index. */
static const struct rd_interface *outgoing_interface(const struct rd_tcp_link *link)
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

/* Starts to connect to the attempt's address. Returns 0, or an errno. */
static int attempt_connect(struct rd_tcp_link *link)
{
	struct rd_tcp_endpoint *endpoint = link->endpoint;
	int index = address_of_attempt(link, link->attempt), family, fd;

	rd_tcp_card_address(&link->card, index, endpoint->interfaces.at[0].name, &link->address);
	family = link->address.ss_family;
	fd = link->stream.fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	link->state = RD_TCP_LINK_CONNECTING;
	link->hello_size = 0;
	link->until_ms = INT64_MAX;
	if (fd < 0 || bind_outgoing(outgoing_interface(link), fd, family) ||
		(connect(fd, (struct sockaddr *)&link->address, rd_address_size(family)) &&
			errno != EINPROGRESS) ||
		rd_event_watch(endpoint->epoll_fd, EPOLL_CTL_ADD, fd, EPOLLOUT, &link->source))
		return errno;
	if (link->attempt + 1 < link->card.count) {
		link->until_ms = rd_clock_ms() + ATTEMPT_MS;
		rd_tcp_timer_request(&endpoint->timer, link->until_ms);
	}
	return 0;
}

/* Returns whether another link to the same peer has logged this address. */
static bool is_logged(const struct rd_tcp_link *link, int index)
{
	for (const struct rd_tcp_link *other = link->endpoint->links; other; other = other->next)
		if (other != link && other->base.peer == link->base.peer &&
			other->failed >> index & 1)
			return true;
	return false;
}

static void abandon_attempt(struct rd_tcp_link *link, const char *why)
{
	int index = address_of_attempt(link, link->attempt);
	char where[RD_ADDRESS_TEXT];

	if (!is_logged(link, index))
		rd_log(RD_WARN, RD_NET,
			"NET/Socket : rank %d does not reach rank %d at %s by %s (%s), and tries "
			"its next address",
			link->endpoint->local->rank, link->base.peer,
			rd_address_text(&link->address, where), outgoing_interface(link)->name,
			why);
	link->failed |= 1u << index;
	if (link->stream.fd >= 0) {
		rd_event_watch(link->endpoint->epoll_fd, EPOLL_CTL_DEL, link->stream.fd, 0, NULL);
		close(link->stream.fd);
		link->stream.fd = -1;
	}
	link->attempt++;
}

/* The attempt has failed: starts the next one. After the last address, fails the link. */
static void link_retry(struct rd_tcp_link *link, int error, const char *activity, int number)
{
	while (link->attempt + 1 < link->card.count) {
		abandon_attempt(link, number ? strerror(number) : activity);
		number = attempt_connect(link);
		if (!number)
			return;
		error = RONDO_UNREACHABLE;
		activity = "cannot be reached";
	}
	rd_tcp_link_fail(link, error, activity, number);
}

static void link_connect(struct rd_tcp_link *link)
{
	int number = attempt_connect(link);

	if (number)
		link_retry(link, RONDO_UNREACHABLE, "cannot be reached", number);
}

void rd_tcp_handshake_check(struct rd_tcp_endpoint *endpoint)
{
	for (struct rd_tcp_link *link = endpoint->links; link; link = link->next) {
		if (link->state != RD_TCP_LINK_CONNECTING || link->base.error)
			continue;
		if (rd_clock_ms() >= link->until_ms)
			link_retry(link, RONDO_UNREACHABLE, "cannot be reached", ETIMEDOUT);
		else if (link->until_ms != INT64_MAX)
			rd_tcp_timer_request(&endpoint->timer, link->until_ms);
	}
}

static void connect_done(struct rd_tcp_link *link)
{
	int number = 0;
	socklen_t size = sizeof(number);

	if (getsockopt(link->stream.fd, SOL_SOCKET, SO_ERROR, &number, &size))
		number = errno;
	if (number == 0 && !hello_send(link, link->stream.fd))
		number = errno;
	if (number) {
		link_retry(link, RONDO_UNREACHABLE, "cannot be reached", number);
		return;
	}
	link->state = RD_TCP_LINK_GREETED;
	rd_event_watch(
		link->endpoint->epoll_fd, EPOLL_CTL_MOD, link->stream.fd, EPOLLIN, &link->source);
}

static void answer_read(struct rd_tcp_link *link)
{
	ssize_t size = recv(link->stream.fd, (char *)&link->hello + link->hello_size,
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
	if (rd_tcp_hello_valid(&link->hello, link->endpoint->card.key, link->endpoint->local) &&
		hello_fits(link, &link->hello))
		rd_tcp_link_open(link, link->stream.fd);
	else
		link_retry(link, RONDO_PROTOCOL, "someone else answers", 0);
}

static bool link_handle(void *owner)
{
	struct rd_tcp_link *link = owner;

	if (link->state == RD_TCP_LINK_CONNECTING)
		connect_done(link);
	else if (link->state == RD_TCP_LINK_GREETED)
		answer_read(link);
	return true;
}

enum rd_tcp_admission rd_tcp_handshake_admit(void *owner, int fd, const struct rd_tcp_hello *hello)
{
	struct rd_tcp_endpoint *endpoint = owner;

	for (struct rd_tcp_link *link = endpoint->links; link; link = link->next)
		if (link->base.peer == hello->from && link->base.channel == hello->channel)
			return link_accept(link, fd, hello) ? RD_TCP_TAKEN : RD_TCP_REFUSED;
	return RD_TCP_EARLY;
}

/* The peer may have connected before this rank opened the link. */
static void take_early(struct rd_tcp_link *link, struct rd_tcp_strangers *strangers)
{
	struct rd_tcp_hello hello;
	int fd = rd_tcp_strangers_take(strangers, link->base.peer, link->base.channel, &hello);

	if (fd >= 0 && !link_accept(link, fd, &hello))
		rd_tcp_reject(fd, "not awaited");
}

void rd_tcp_handshake_begin(struct rd_tcp_link *link, struct rd_tcp_strangers *strangers)
{
	link->source = (struct rd_event_source){ link_handle, link };
	if (link->base.peer < link->endpoint->local->rank)
		link_connect(link);
	else
		take_early(link, strangers);
}
