#include "transports/tcp/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transports/tcp/connector.h"

/* The time for one of a peer's addresses before the next is tried: to connect there, and then for
   the answer. A peer answers when it has opened the link, which takes longer. */
#define ATTEMPT_MS 1000
#define ANSWER_MS 5000
/* From a refusal or a reset at the last address to the next attempt at the first. */
#define REST_MS 100
/* Seconds without a byte after which the kernel sends an empty packet: firewalls forget connections
   where nothing passes, those of clouds after 350 s. */
#define KEEPALIVE_S 60

/* ---- Hello ----- --------------------------------------------------------------------------- */

static struct rd_tcp_hello hello_of(const struct rd_tcp_connection *connection, int from, int to)
{
	struct rd_tcp_hello hello = {
		.magic = RD_TCP_HELLO_MAGIC,
		.version = RD_TCP_VERSION,
		.from = from,
		.to = to,
		.channel = connection->channel,
		.comm_id = connection->connector->local->comm_id,
	};

	memcpy(hello.key, connection->connector->local->key, sizeof(hello.key));
	return hello;
}

/* The one that is due from the peer. */
static struct rd_tcp_hello hello_awaited(const struct rd_tcp_connection *connection)
{
	return hello_of(connection, connection->peer, connection->connector->local->rank);
}

/* The socket buffer of a new connection has room for a hello: a short write is an error. */
static bool hello_send(const struct rd_tcp_connection *connection, struct rd_wire *wire)
{
	struct rd_tcp_hello hello =
		hello_of(connection, connection->connector->local->rank, connection->peer);
	struct iovec all = { &hello, sizeof(hello) };
	ssize_t size = rd_wire_send(wire, &all, 1);

	if (size >= 0 && size != sizeof(hello))
		errno = EIO;
	return size == sizeof(hello);
}

/* Whether the peer's bytes come from this host: by its card, and by this address, since hosts may
   have one name by mistake. */
static bool is_within_host(
	const struct rd_tcp_connection *connection, const struct sockaddr_storage *address)
{
	return connection->card.host == connection->connector->station->card.host &&
	       rd_address_is_local(address);
}

/* Whether the job has a secret, and the peer's bytes may come from another host. */
static bool must_prove(
	const struct rd_tcp_connection *connection, const struct sockaddr_storage *address)
{
	return connection->connector->local->settings->has_psk &&
	       !is_within_host(connection, address);
}

static bool has_proved(const struct rd_tcp_connection *connection, const struct rd_wire *wire)
{
	struct sockaddr_storage address = { 0 };
	socklen_t size = sizeof(address);

	if (wire->keyed || !connection->connector->local->settings->has_psk)
		return true;
	return getpeername(wire->fd, (struct sockaddr *)&address, &size) == 0 &&
	       !must_prove(connection, &address);
}

/* ---- Ends ---------------------------------------------------------------------------------- */

void rd_tcp_wire_close(int epoll_fd, struct rd_wire *wire)
{
	int fd = rd_wire_release(wire);

	rd_event_close(epoll_fd, &fd);
}

static void tune(int fd)
{
	int yes = 1, idle_s = KEEPALIVE_S;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof(idle_s));
}

/* Both leave the rest to rd_tcp_connections_deliver(). */
static void open_with(struct rd_tcp_connection *connection, struct rd_wire *wire)
{
	struct rd_wire opened = *wire;

	*wire = (struct rd_wire)RD_WIRE(-1);
	tune(opened.fd);
	rd_event_watch(connection->connector->station->epoll_fd, EPOLL_CTL_DEL, opened.fd, 0, NULL);
	connection->wire = opened;
	connection->state = RD_TCP_OPENED;
	rd_tcp_stir(connection->connector);
}

static void fail(struct rd_tcp_connection *connection, int error, const char *reason)
{
	rd_tcp_wire_close(connection->connector->station->epoll_fd, &connection->wire);
	connection->state = RD_TCP_FAILED;
	connection->error = error;
	snprintf(connection->reason, sizeof(connection->reason), "%s", reason);
	rd_tcp_stir(connection->connector);
}

int rd_tcp_connections_deliver(struct rd_tcp_connector *connector)
{
	int delivered = 0;

	for (struct rd_tcp_connection *at = connector->connections; at; at = at->next) {
		enum rd_tcp_connection_state state = at->state;
		struct rd_wire wire = at->wire;

		if (state != RD_TCP_OPENED && state != RD_TCP_FAILED)
			continue;
		at->state = RD_TCP_DELIVERED;
		at->wire = (struct rd_wire)RD_WIRE(-1);
		if (state == RD_TCP_OPENED)
			at->opened(at->owner, &wire);
		else
			at->failed(at->owner, at->error, at->reason);
		delivered++;
	}
	return delivered;
}

/* "ACTIVITY at ADDRESS: text of `number`"; errno, or 0 for none. */
static void fail_at_address(
	struct rd_tcp_connection *connection, int error, const char *activity, int number)
{
	char where[RD_ADDRESS_SIZE], reason[RD_TCP_REASON_MAX];

	snprintf(reason, sizeof(reason), "%s at %s%s%s", activity,
		rd_address_print(where, &connection->address), number ? ": " : "",
		number ? strerror(number) : "");
	fail(connection, error, reason);
}

/* ---- Accepting ----------------------------------------------------------------------------- */

/* The listener's sockets have what suits this host's own. */
static void restore_congestion(const struct rd_tcp_connection *connection, int fd)
{
	struct sockaddr_storage address = { 0 };
	socklen_t size = sizeof(address);

	if (getpeername(fd, (struct sockaddr *)&address, &size) == 0 &&
		!is_within_host(connection, &address))
		rd_tcp_congestion_restore(fd, connection->connector->station->congestion);
}

/* Takes over the wire if the connection waits for it, else rejects it. */
static void accept_from(struct rd_tcp_connection *connection, struct rd_wire *wire)
{
	if (connection->state != RD_TCP_AWAITED || !has_proved(connection, wire)) {
		rd_listener_reject(connection->connector->station->listener, wire, "not awaited");
		return;
	}
	rd_wire_keep_buffers(wire);
	if (hello_send(connection, wire)) {
		restore_congestion(connection, wire->fd);
		open_with(connection, wire);
		return;
	}
	fail_at_address(connection, RONDO_BROKEN, "lost its connection", errno);
	rd_wire_close(wire);
}

bool rd_tcp_connections_admit(
	struct rd_tcp_connector *connector, struct rd_wire *wire, const struct rd_tcp_hello *hello)
{
	struct rd_tcp_connection *at = connector->connections;

	while (at && (at->peer != hello->from || at->channel != hello->channel))
		at = at->next;
	if (at)
		accept_from(at, wire);
	return at != NULL;
}

/* The peer may have connected before this rank opened the connection. */
static void take_early(struct rd_tcp_connection *connection)
{
	struct rd_tcp_hello hello = hello_awaited(connection);
	struct rd_wire wire;

	if (rd_tcp_early_take(&connection->connector->station->early, &hello, &wire))
		accept_from(connection, &wire);
}

void rd_tcp_connections_fail_awaited(struct rd_tcp_station *station, int number)
{
	char reason[RD_TCP_REASON_MAX];

	snprintf(reason, sizeof(reason), "its connection could not be accepted: %s",
		strerror(number));
	for (struct rd_tcp_connector *one = station->connectors; one; one = one->next)
		for (struct rd_tcp_connection *at = one->connections; at; at = at->next)
			if (at->state == RD_TCP_AWAITED)
				fail(at, RONDO_SYSTEM, reason);
}

/* ---- Connecting ---------------------------------------------------------------------------- */

/* Returns the index of the address that an attempt tries: the shared ones first. Each channel
   begins with another. */
static int address_of_attempt(const struct rd_tcp_connection *connection, int attempt)
{
	int shared = connection->card.shared;

	return attempt < shared ? (connection->channel + attempt) % shared : attempt;
}

/* Returns the interface by which the connection leaves, which may differ from the routing table:
   the one on the address's own network, else the one of the same index. */
static const struct rd_interface *outgoing_interface(const struct rd_tcp_connection *connection)
{
	const struct rd_interfaces *ours = &connection->connector->station->interfaces;
	int index = address_of_attempt(connection, connection->attempt);

	for (int i = 0; i < ours->count; i++)
		if (rd_interface_is_near(&ours->at[i], &connection->address))
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

/* Binds an attempt to the contested interface that shares the peer's network. A peer on this host
   answers by the loopback. */
static void bind_device(struct rd_tcp_connection *connection)
{
	const struct rd_interface *interface = outgoing_interface(connection);

	connection->on_device = interface->is_contested && !connection->off_device &&
				rd_interface_is_near(interface, &connection->address) &&
				!rd_address_is_local(&connection->address) &&
				rd_interface_bind(interface, connection->wire.fd);
}

/* Limits the time of this attempt from now on, if there is another to make. */
static void limit_attempt(struct rd_tcp_connection *connection, int64_t ms)
{
	connection->until_ms = INT64_MAX;
	if (connection->attempt + 1 == connection->card.count && !connection->on_device)
		return;
	connection->until_ms = rd_clock_ms() + ms;
	rd_tcp_timer_request(&connection->connector->station->timer, connection->until_ms);
}

/* Starts to connect to the attempt's address. Returns 0, or an errno. */
static int attempt_connect(struct rd_tcp_connection *connection)
{
	struct rd_tcp_connector *connector = connection->connector;
	int index = address_of_attempt(connection, connection->attempt), family, fd;

	rd_tcp_card_address(&connection->card, index, connector->station->interfaces.at[0].name,
		&connection->address);
	family = connection->address.ss_family;
	fd = rd_above_stderr(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	connection->wire = (struct rd_wire)RD_WIRE(fd);
	connection->state = RD_TCP_CONNECTING;
	connection->hello_size = 0;
	if (fd >= 0)
		bind_device(connection);
	if (fd >= 0 && is_within_host(connection, &connection->address))
		rd_tcp_congestion_near(fd);
	if (fd < 0 || bind_outgoing(outgoing_interface(connection), fd, family) ||
		(connect(fd, (struct sockaddr *)&connection->address, rd_address_size(family)) &&
			errno != EINPROGRESS) ||
		rd_event_watch(connector->station->epoll_fd, EPOLL_CTL_ADD, fd, EPOLLOUT,
			&connection->source))
		return errno;
	limit_attempt(connection, ATTEMPT_MS);
	return 0;
}

/* Returns whether a connection with the same peer has logged this address. */
static bool is_logged(const struct rd_tcp_connection *connection, int index)
{
	for (const struct rd_tcp_connection *at = connection->connector->connections; at;
		at = at->next)
		if (at->peer == connection->peer && at->in_vain >> index & 1)
			return true;
	return false;
}

static void abandon_attempt(struct rd_tcp_connection *connection, const char *why)
{
	int index = address_of_attempt(connection, connection->attempt);
	char where[RD_ADDRESS_SIZE];

	if (!is_logged(connection, index))
		rd_log(RD_WARN, RD_NET,
			"NET/Socket : rank %d does not reach rank %d at %s by %s (%s), and tries "
			"its next address",
			connection->connector->local->rank, connection->peer,
			rd_address_print(where, &connection->address),
			outgoing_interface(connection)->name, why);
	connection->in_vain |= 1u << index;
	rd_tcp_wire_close(connection->connector->station->epoll_fd, &connection->wire);
	connection->attempt++;
}

/* Between hosts, a network may refuse or reset for a moment. A peer resets what it has no place
   for. One of this host that refuses has ended. */
static bool may_pass(const struct rd_tcp_connection *connection, int number)
{
	bool same_host = connection->card.host == connection->connector->station->card.host;

	return (number == ECONNRESET || number == ECONNABORTED ||
		       (number == ECONNREFUSED && !same_host)) &&
	       rd_clock_ms() < connection->give_up_ms;
}

static void rest(struct rd_tcp_connection *connection)
{
	rd_tcp_wire_close(connection->connector->station->epoll_fd, &connection->wire);
	connection->state = RD_TCP_RESTING;
	connection->until_ms = rd_clock_ms() + REST_MS;
	rd_tcp_timer_request(&connection->connector->station->timer, connection->until_ms);
}

/* Hosts may answer for an address by another interface of that network, and a socket that is bound
   to one gets nothing from there. */
static int leave_device(struct rd_tcp_connection *connection)
{
	char where[RD_ADDRESS_SIZE];

	rd_log(RD_WARN, RD_NET,
		"NET/Socket : rank %d does not reach rank %d at %s by %s, and lets the kernel choose "
		"among the interfaces on its network",
		connection->connector->local->rank, connection->peer,
		rd_address_print(where, &connection->address),
		outgoing_interface(connection)->name);
	connection->on_device = false;
	connection->off_device = true;
	rd_tcp_wire_close(connection->connector->station->epoll_fd, &connection->wire);
	return attempt_connect(connection);
}

/* The attempt has failed: starts the next one. After the last address, begins again with the first,
   or fails the connection. */
static void retry(struct rd_tcp_connection *connection, int error, const char *activity, int number)
{
	if (connection->on_device && (number == ETIMEDOUT || number == EHOSTUNREACH)) {
		number = leave_device(connection);
		if (!number)
			return;
	}
	while (connection->attempt + 1 < connection->card.count) {
		abandon_attempt(connection, number ? strerror(number) : activity);
		number = attempt_connect(connection);
		if (!number)
			return;
		error = RONDO_UNREACHABLE;
		activity = "cannot be reached";
	}
	if (may_pass(connection, number))
		rest(connection);
	else
		fail_at_address(connection, error, activity, number);
}

static void connect_first(struct rd_tcp_connection *connection)
{
	int number = attempt_connect(connection);

	if (number)
		retry(connection, RONDO_UNREACHABLE, "cannot be reached", number);
}

/* The peer has proved itself, or need not. */
static void greet(struct rd_tcp_connection *connection)
{
	if (!hello_send(connection, &connection->wire)) {
		retry(connection, RONDO_UNREACHABLE, "cannot be reached", errno);
		return;
	}
	if (!connection->connector->local->settings->encrypt)
		rd_wire_strip(&connection->wire);
	connection->state = RD_TCP_GREETED;
}

static void prove(struct rd_tcp_connection *connection)
{
	int result = rd_wire_prove(&connection->wire);

	if (result > 0)
		greet(connection);
	else if (result < 0)
		retry(connection, RONDO_UNREACHABLE,
			errno == EPROTO ? "does not have the job's secret" : "cannot be reached",
			errno);
}

/* The number of the error that has ended the attempt to connect; 0: none has. */
static int error_of_attempt(struct rd_tcp_connection *connection)
{
	int number = 0;
	socklen_t size = sizeof(number);

	if (getsockopt(connection->wire.fd, SOL_SOCKET, SO_ERROR, &number, &size))
		number = errno;
	if (!number && must_prove(connection, &connection->address) &&
		rd_wire_secure(
			&connection->wire, false, connection->connector->local->settings->psk))
		number = ENOMEM;
	rd_wire_keep_buffers(&connection->wire);
	return number;
}

static void connect_done(struct rd_tcp_connection *connection)
{
	int number = error_of_attempt(connection);

	if (number) {
		retry(connection, RONDO_UNREACHABLE, "cannot be reached", number);
		return;
	}
	connection->state = RD_TCP_PROVING;
	connection->on_device = false; /* it carries packets both ways */
	limit_attempt(connection, ANSWER_MS);
	rd_event_watch(connection->connector->station->epoll_fd, EPOLL_CTL_MOD, connection->wire.fd,
		EPOLLIN, &connection->source);
	prove(connection);
}

static void answer_read(struct rd_tcp_connection *connection)
{
	struct rd_tcp_hello awaited = hello_awaited(connection);
	struct iovec rest = { (char *)&connection->hello + connection->hello_size,
		sizeof(connection->hello) - connection->hello_size };
	ssize_t size = rd_wire_recv(&connection->wire, &rest, 1);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size <= 0) {
		retry(connection, RONDO_UNREACHABLE, "turned the connection away",
			size < 0 ? errno : 0);
		return;
	}
	connection->hello_size += (size_t)size;
	if (connection->hello_size < sizeof(connection->hello))
		return;
	if (rd_tcp_hello_same(&connection->hello, &awaited))
		open_with(connection, &connection->wire);
	else
		retry(connection, RONDO_PROTOCOL, "someone else answers", 0);
}

static void advance(struct rd_tcp_connection *connection)
{
	if (connection->state == RD_TCP_PROVING)
		prove(connection);
	if (connection->state == RD_TCP_GREETED)
		answer_read(connection);
}

/* The answer may have come while this rank did not run. */
static void answer_overdue(struct rd_tcp_connection *connection)
{
	int attempt = connection->attempt;

	advance(connection);
	if (connection->attempt == attempt &&
		(connection->state == RD_TCP_PROVING || connection->state == RD_TCP_GREETED))
		retry(connection, RONDO_UNREACHABLE, "does not answer", 0);
}

static void check(struct rd_tcp_connection *connection)
{
	if (connection->state != RD_TCP_RESTING && connection->state != RD_TCP_CONNECTING &&
		connection->state != RD_TCP_PROVING && connection->state != RD_TCP_GREETED)
		return;
	if (rd_clock_ms() < connection->until_ms) {
		if (connection->until_ms != INT64_MAX)
			rd_tcp_timer_request(
				&connection->connector->station->timer, connection->until_ms);
	} else if (connection->state == RD_TCP_RESTING) {
		connection->attempt = 0;
		connect_first(connection);
	} else if (connection->state == RD_TCP_CONNECTING) {
		retry(connection, RONDO_UNREACHABLE, "cannot be reached", ETIMEDOUT);
	} else {
		answer_overdue(connection);
	}
}

void rd_tcp_connections_check(struct rd_tcp_station *station)
{
	for (struct rd_tcp_connector *one = station->connectors; one; one = one->next) {
		if (one->unfinished == 0)
			continue;
		rd_tcp_stir(one);
		for (struct rd_tcp_connection *at = one->connections; at; at = at->next)
			check(at);
	}
}

static bool connection_handle(void *owner)
{
	struct rd_tcp_connection *connection = owner;

	if (connection->state == RD_TCP_CONNECTING)
		connect_done(connection);
	else
		advance(connection);
	rd_tcp_stir(connection->connector);
	return false;
}

void rd_tcp_connection_begin(struct rd_tcp_connection *connection)
{
	struct rd_tcp_connector *connector = connection->connector;
	const struct rd_tcp_card *card = &connection->card;

	/* Before the ranks give up to meet, so that they get this reason. */
	connection->give_up_ms =
		rd_clock_ms() + connector->local->settings->init_timeout_ms / 4 * 3;
	connection->wire = (struct rd_wire)RD_WIRE(-1);
	connection->source = (struct rd_event_source){ connection_handle, connection };
	rd_tcp_card_address(card, connection->channel % card->shared,
		connector->station->interfaces.at[0].name, &connection->address);
	connection->next = connector->connections;
	connector->connections = connection;
	if (connection->peer < connector->local->rank)
		connect_first(connection);
	else
		take_early(connection);
}
