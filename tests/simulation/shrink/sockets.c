/* Listeners and connections between ranks, and their epolls. A descriptor is 1000 and an index. */
#include "world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "bootstrap/control_socket.h"
#include "net/socket.h"

#define FIRST_FD 1000

static struct sock *sock_of(int fd)
{
	return &line.socks[fd - FIRST_FD];
}

/* ---- Life ---------------------------------------------------------------------------------- */

static int add(enum sock_kind kind, int owner)
{
	int index = line.sock_count;

	if (index == SOCKETS_MAX) {
		line_fail("more than %d sockets were made", SOCKETS_MAX);
		index--;
	} else {
		line.sock_count++;
	}
	line.socks[index] = (struct sock){
		.kind = kind, .owner = owner, .pending = -1, .next_pending = -1, .peer = -1
	};
	return index;
}

/* One that the rank has a descriptor of. */
static int open_sock(int index)
{
	struct line_rank *rank = &line.ranks[line.socks[index].owner];

	if (rank->open_count == (int)(sizeof(rank->open) / sizeof(rank->open[0])))
		line_fail("rank %d has %d sockets open", rank->origin, rank->open_count);
	else
		rank->open[rank->open_count++] = index;
	return FIRST_FD + index;
}

int socks_listen(int owner)
{
	int index = add(KIND_LISTENER, owner);

	line.socks[index].port = ++line.ports;
	return open_sock(index);
}

uint32_t socks_port(int fd)
{
	return sock_of(fd)->port;
}

static int listener_at(uint32_t port)
{
	for (int i = 0; i < line.sock_count; i++)
		if (line.socks[i].kind == KIND_LISTENER && line.socks[i].port == port)
			return i;
	return -1;
}

int socks_owner_of(uint32_t port)
{
	int index = listener_at(port);

	return index < 0 ? -1 : line.socks[index].owner;
}

static void clear_mails(struct sock *sock)
{
	while (sock->first) {
		struct mail *mail = sock->first;

		sock->first = mail->next;
		free(mail);
	}
	sock->last = NULL;
	sock->arrived = 0;
	sock->readable = false;
}

void socks_finish(void)
{
	for (int i = 0; i < line.sock_count; i++)
		clear_mails(&line.socks[i]);
	line.sock_count = 0;
}

/* ---- Mails --------------------------------------------------------------------------------- */

static void put_mail(int index, const struct rd_control_message *message, int error)
{
	struct sock *sock = &line.socks[index];
	struct mail *mail = calloc(1, sizeof(*mail));
	uint64_t at_ns = line.now_ns + line_delay(line.network_ns);

	if (!mail)
		abort();
	mail->ends = !message;
	mail->error = error;
	if (message)
		mail->message = *message;
	if (sock->last)
		sock->last->next = mail;
	else
		sock->first = mail;
	sock->last = mail;
	if (at_ns < sock->last_ns)
		at_ns = sock->last_ns;
	sock->last_ns = at_ns;
	line_event(EVENT_MAIL, index, at_ns);
}

static int owner_of_peer(const struct sock *sock)
{
	return sock->peer < 0 ? -1 : line.socks[sock->peer].owner;
}

/* The bytes that have come are lost. */
static void break_stream(int index, int error)
{
	struct sock *sock = &line.socks[index];

	if (sock->kind != KIND_STREAM || (sock->arrived > 0 && sock->first->ends))
		return;
	if (!sock->connected)
		sock->error = error;
	clear_mails(sock);
	put_mail(index, NULL, error);
	sock->arrived = 1;
	line_touch(sock->owner);
}

static const struct mail *end_of(const struct sock *sock)
{
	const struct mail *mail = sock->first;

	for (int i = 0; i < sock->arrived && mail; i++, mail = mail->next)
		if (mail->ends)
			return mail;
	return NULL;
}

bool socks_has_ended(int fd)
{
	return sock_of(fd)->kind != KIND_STREAM || end_of(sock_of(fd));
}

static void close_sock(int index)
{
	struct sock *sock = &line.socks[index];
	struct sock *peer = sock->peer < 0 ? NULL : &line.socks[sock->peer];
	struct line_rank *rank = &line.ranks[sock->owner];

	if (sock->kind == KIND_CLOSED)
		return;
	for (int i = sock->pending, next; i >= 0; i = next) {
		next = line.socks[i].next_pending;
		/* Bytes that nobody has read, or a connection that nobody took: a reset. */
		line.socks[i].arrived += line.socks[i].arrived == 0;
		close_sock(i);
	}
	if (peer && peer->kind == KIND_STREAM)
		put_mail(sock->peer, NULL, sock->arrived > 0 && !end_of(sock) ? ECONNRESET : 0);
	for (int i = 0; i < rank->open_count; i++)
		if (rank->open[i] == index)
			rank->open[i] = rank->open[--rank->open_count];
	clear_mails(sock);
	sock->kind = KIND_CLOSED;
}

int sim_close(int fd)
{
	close_sock(fd - FIRST_FD);
	return 0;
}

void socks_close_all(int rank)
{
	while (line.ranks[rank].open_count > 0)
		close_sock(line.ranks[rank].open[0]);
}

void socks_reset(int rank)
{
	for (int i = 0; i < line.sock_count; i++) {
		const struct sock *sock = &line.socks[i];

		if (sock->kind != KIND_STREAM || sock->owner != rank || sock->peer < 0)
			continue;
		break_stream(sock->peer, ECONNRESET);
		break_stream(i, ECONNRESET);
	}
}

void socks_reject(void)
{
	for (int i = 0; i < line.sock_count; i++) {
		int other = owner_of_peer(&line.socks[i]);

		if (other >= 0 && line_rejects(line.socks[i].owner, other))
			break_stream(i, ECONNRESET);
	}
}

void socks_begin_silence(void)
{
	for (int i = 0; i < line.sock_count; i++)
		if (line.socks[i].kind == KIND_STREAM && line.socks[i].connected)
			line_event(EVENT_SILENCE, i, line.now_ns + LINE_HEARTBEAT_MS * MS);
}

void socks_intrude(int rank, int kind)
{
	int at = line.ranks[rank].line_fd - FIRST_FD, near = add(KIND_STREAM, rank);
	struct sock *stream = &line.socks[near], *listener = &line.socks[at];
	struct rd_control_message message = { .kind = RD_CONTROL_MADE };

	if (listener->kind != KIND_LISTENER) {
		close_sock(near);
		return;
	}
	stream->connected = true;
	stream->next_pending = listener->pending;
	listener->pending = near;
	if (kind == 2)
		message = (struct rd_control_message){ .kind = RD_CONTROL_GATHER,
			.gather = { 77, 0 } };
	if (kind == 1 || kind == 2)
		put_mail(near, &message, 0);
	if (kind == 3)
		put_mail(near, NULL, 0);
	line_touch(listener->owner);
}

/* ---- Events -------------------------------------------------------------------------------- */

/* The attempt comes again once the ranks can reach each other. */
static void take_attempt(int index)
{
	struct sock *near = &line.socks[index], *listener;
	int at = listener_at(near->port), far;
	uint64_t cut_ns;

	if (near->kind != KIND_STREAM)
		return;
	cut_ns = line_cut(near->owner, near->toward);
	if (cut_ns) {
		if (cut_ns != NEVER)
			line_event(EVENT_SYN, index, cut_ns);
		return;
	}
	if (at < 0 || line_rejects(near->owner, near->toward)) {
		line_event(EVENT_REFUSED, index, line.now_ns + line_delay(line.network_ns));
		return;
	}
	far = add(KIND_STREAM, line.socks[at].owner);
	listener = &line.socks[at];
	line.socks[far].connected = true;
	line.socks[far].peer = index;
	line.socks[far].next_pending = listener->pending;
	listener->pending = far;
	near->peer = far;
	near->last_ns = line.now_ns + line_delay(line.network_ns);
	line_event(EVENT_CONNECTED, index, near->last_ns);
	line_touch(listener->owner);
}

static void take_mail(int index)
{
	struct sock *sock = &line.socks[index];
	int other = owner_of_peer(sock), count = 0;
	uint64_t cut_ns = other < 0 ? 0 : line_cut(sock->owner, other);

	if (sock->kind != KIND_STREAM || cut_ns == NEVER)
		return;
	if (cut_ns) {
		line_event(EVENT_MAIL, index, cut_ns);
		return;
	}
	for (const struct mail *mail = sock->first; mail; mail = mail->next)
		count++;
	sock->arrived += sock->arrived < count;
	line_touch(sock->owner);
}

static void take_silence(int index)
{
	struct sock *sock = &line.socks[index];
	int other = owner_of_peer(sock);

	if (sock->kind == KIND_STREAM && other >= 0 && line_silent(sock->owner, other))
		break_stream(index, ETIMEDOUT);
}

void socks_take_event(enum line_event kind, int subject)
{
	struct sock *sock = &line.socks[subject];

	if (kind == EVENT_SYN) {
		take_attempt(subject);
	} else if (kind == EVENT_MAIL) {
		take_mail(subject);
	} else if (kind == EVENT_SILENCE) {
		take_silence(subject);
	} else if (sock->kind == KIND_STREAM && sock->error == EINPROGRESS) {
		sock->connected = kind == EVENT_CONNECTED;
		sock->error = kind == EVENT_REFUSED ? ECONNREFUSED : 0;
		line_touch(sock->owner);
	}
}

/* ---- In place of net/socket.h       -------------------------------------------------------- */

/* An address is a port, and the rank that it is of. */
int sim_resolve(
	struct rd_addresses *addresses, const struct rd_settings *settings, int64_t deadline_ms)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)settings->port),
		.sin_addr.s_addr = (uint32_t)atoi(settings->address) };

	(void)deadline_ms;
	addresses->count = 1;
	memcpy(&addresses->at[0], &address, sizeof(address));
	addresses->size[0] = sizeof(address);
	return 0;
}

int sim_listen_near(const struct sockaddr_storage *address)
{
	(void)address;
	return socks_listen(line.current);
}

int sim_socket_place(int fd, char address[RD_NUMERIC_ADDRESS], uint32_t *port)
{
	snprintf(address, RD_NUMERIC_ADDRESS, "%d", line.current);
	*port = sock_of(fd)->port;
	return 0;
}

int sim_connect_start(const struct rd_addresses *addresses, int index)
{
	int near = add(KIND_STREAM, line.current);
	struct sockaddr_in address;

	memcpy(&address, &addresses->at[index], sizeof(address));
	line.socks[near].port = ntohs(address.sin_port);
	line.socks[near].toward = (int)address.sin_addr.s_addr;
	line.socks[near].error = EINPROGRESS;
	line.socks[near].last_ns = line.now_ns + line_delay(line.network_ns);
	line_event(EVENT_SYN, near, line.socks[near].last_ns);
	return open_sock(near);
}

int sim_connect_finish(int fd)
{
	return sock_of(fd)->error;
}

int sim_accept(int fd)
{
	struct sock *listener = sock_of(fd);
	int index = listener->pending, before = -1;

	if (index < 0) {
		errno = EAGAIN;
		return -1;
	}
	/* The oldest is the last of the list. */
	for (; line.socks[index].next_pending >= 0; index = line.socks[index].next_pending)
		before = index;
	if (before < 0)
		listener->pending = -1;
	else
		line.socks[before].next_pending = -1;
	return open_sock(index);
}

void sim_socket_tune(int fd, int timeout_ms)
{
	const struct sock *sock = sock_of(fd);
	int other = owner_of_peer(sock);

	if (other >= 0 && line_cut(sock->owner, other))
		line_event(EVENT_SILENCE, fd - FIRST_FD, line.now_ns + (uint64_t)timeout_ms * MS);
}

/* ---- Epoll --------------------------------------------------------------------------------- */

int sim_epoll_create(void)
{
	return open_sock(add(KIND_EPOLL, line.current));
}

int sim_epoll_control(int operation, int fd, const struct epoll_event *event)
{
	struct sock *sock = sock_of(fd);

	sock->watched = operation != EPOLL_CTL_DEL;
	sock->events = event ? event->events : 0;
	if (event)
		sock->mark = event->data.u64;
	return 0;
}

static bool is_ready(const struct sock *sock)
{
	if (sock->kind == KIND_LISTENER)
		return sock->pending >= 0;
	if (sock->error != EINPROGRESS && (sock->events & EPOLLOUT || sock->error))
		return true;
	return (sock->events & EPOLLIN && sock->arrived > 0) ||
	       (sock->events & EPOLLRDHUP && end_of(sock));
}

static int collect(struct epoll_event *events, int most)
{
	const struct line_rank *self = line_self();
	int first = (int)draw(&line.run, (uint64_t)self->open_count), count = 0;

	for (int i = 0; i < self->open_count && count < most; i++) {
		const struct sock *sock = &line.socks[self->open[(first + i) % self->open_count]];

		if (sock->watched && is_ready(sock))
			events[count++] = (struct epoll_event){ .events = sock->events,
				.data.u64 = sock->mark };
	}
	return count;
}

int sim_epoll_wait(struct epoll_event *events, int count, int timeout_ms)
{
	uint64_t until_ns = line.now_ns + (uint64_t)timeout_ms * MS;
	int found;

	/* Also where something is ready, some time passes. */
	ranks_wait(line.now_ns + line_delay(line.wake_ns));
	for (;;) {
		found = collect(events, count);
		if (found > 0 || line.now_ns >= until_ns)
			return found;
		ranks_wait(until_ns);
	}
}

/* ---- In place of bootstrap/control_socket.h ------------------------------------------------ */

struct rd_control_socket *sim_connection_open(int epoll_fd, int fd, uint64_t mark, uint32_t events,
	const struct rd_settings *settings, bool accepts)
{
	struct rd_control_socket *connection = sim_calloc(1, sizeof(*connection));
	struct epoll_event event = { .events = events, .data.u64 = mark };

	(void)epoll_fd, (void)settings, (void)accepts;
	connection->connection.wire.fd = fd;
	connection->mark = mark;
	sim_epoll_control(EPOLL_CTL_ADD, fd, &event);
	return connection;
}

void sim_connection_close(struct rd_control_socket **connection, bool resets)
{
	(void)resets;
	if (!*connection)
		return;
	sim_close((*connection)->connection.wire.fd);
	sim_free(*connection);
	*connection = NULL;
}

void sim_connection_watch(struct rd_control_socket *connection, uint32_t events)
{
	sock_of(connection->connection.wire.fd)->events = events;
}

bool sim_connection_has_shown_key(const struct rd_control_socket *connection)
{
	return sock_of(connection->connection.wire.fd)->peer >= 0;
}

int sim_connection_read(struct rd_control_socket *connection, int *error)
{
	struct sock *sock = sock_of(connection->connection.wire.fd);

	*error = 0;
	if (sock->arrived == 0 || sock->readable)
		return 0;
	if (sock->first->ends) {
		*error = sock->first->error;
		return -1;
	}
	sock->readable = true;
	return 1;
}

int sim_connection_take(struct rd_control_socket *connection, struct rd_control_message *message)
{
	struct sock *sock = sock_of(connection->connection.wire.fd);
	struct mail *mail = sock->first;

	if (!sock->readable)
		return 0;
	*message = mail->message;
	sock->first = mail->next;
	if (!sock->first)
		sock->last = NULL;
	sock->arrived--;
	sock->readable = false;
	free(mail);
	return 1;
}

void sim_connection_put(struct rd_control_socket *connection, struct rd_control_message *message)
{
	const struct sock *sock = sock_of(connection->connection.wire.fd);

	if (sock->peer >= 0 && line.socks[sock->peer].kind == KIND_STREAM && !end_of(sock))
		put_mail(sock->peer, message, 0);
}

bool sim_connection_flush(struct rd_control_socket *connection, int *error)
{
	const struct mail *end = end_of(sock_of(connection->connection.wire.fd));

	*error = end ? end->error : 0;
	return !end || !end->error;
}

bool sim_connection_is_flushed(const struct rd_control_socket *connection)
{
	(void)connection;
	return true;
}
