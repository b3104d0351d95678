#include "transports/shm/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "transports/shm/socket.h"

/* Greetings of comms that this rank has left, or not entered, may wait: so many. */
#define EARLY_MOST 64

static const char closed_early[] = "closed its connection before the link was open";

/* ---- Inboxes --------------------------------------------------------------------------------- */

static void tell(struct rd_shm_connection *connection, const struct rd_shm_inbox *inbox)
{
	struct rd_shm_station *station = connection->station;

	atomic_store(inbox->news, true);
	station->others |= inbox->news != station->reader;
}

static void tell_all(struct rd_shm_connection *connection)
{
	for (struct rd_shm_inbox *at = connection->inboxes; at; at = at->next)
		tell(connection, at);
}

static struct rd_shm_inbox *find_inbox(struct rd_shm_connection *connection, uint64_t comm_id)
{
	struct rd_shm_inbox *inbox = connection->inboxes;

	while (inbox && inbox->comm_id != comm_id)
		inbox = inbox->next;
	return inbox;
}

void rd_shm_connection_join(struct rd_shm_connection *connection, struct rd_shm_inbox *inbox)
{
	inbox->next = connection->inboxes;
	connection->inboxes = inbox;
	rd_shm_queue_move(&connection->early, &inbox->packets, inbox->comm_id);
	if (inbox->packets.first)
		connection->early_count--;
}

static void remove_connection(struct rd_shm_connection *connection)
{
	struct rd_shm_connection **at = &connection->station->connections;

	while (*at != connection)
		at = &(*at)->next;
	*at = connection->next;
	rd_shm_connection_destroy(connection);
}

void rd_shm_connection_leave(struct rd_shm_connection *connection, struct rd_shm_inbox *inbox)
{
	struct rd_shm_inbox **at = &connection->inboxes;

	while (*at != inbox)
		at = &(*at)->next;
	*at = inbox->next;
	rd_shm_queue_finish(&inbox->packets);
	if (!connection->inboxes && connection->state == RD_SHM_ENDED)
		remove_connection(connection);
}

/* ---- Endings --------------------------------------------------------------------------------- */

void rd_shm_connection_fail(struct rd_shm_connection *connection, int error, const char *reason)
{
	connection->state = RD_SHM_ENDED;
	connection->error = error;
	snprintf(connection->reason, sizeof(connection->reason), "%s", reason);
	rd_event_close(connection->station->epoll_fd, &connection->fd);
	rd_shm_queue_finish(&connection->outgoing);
	if (!connection->inboxes)
		rd_shm_fd_close(&connection->wake_fd);
	tell_all(connection);
}

static void free_all(struct rd_shm_connection *connection)
{
	rd_shm_queue_finish(&connection->outgoing);
	rd_shm_queue_finish(&connection->early);
	rd_shm_fd_close(&connection->wake_fd);
	free(connection);
}

void rd_shm_connection_destroy(struct rd_shm_connection *connection)
{
	/* A child forked by the program may hold the socket: the peer must not wait for that. */
	if (connection->fd >= 0)
		shutdown(connection->fd, SHUT_RDWR);
	rd_event_close(connection->station->epoll_fd, &connection->fd);
	free_all(connection);
}

void rd_shm_connection_abandon(struct rd_shm_connection *connection)
{
	rd_shm_fd_close(&connection->fd);
	free_all(connection);
}

/* ---- Sending --------------------------------------------------------------------------------- */

static bool send_now(
	const struct rd_shm_connection *connection, const void *packet, size_t size, int fd)
{
	return rd_shm_packet_send(connection->fd, packet, size, &fd, fd >= 0);
}

/* The epoll reports room while packets wait for it. */
static void watch(struct rd_shm_connection *connection, uint32_t events)
{
	rd_event_watch(connection->station->epoll_fd, EPOLL_CTL_MOD, connection->fd, events,
		&connection->source);
}

bool rd_shm_connection_try_send(
	struct rd_shm_connection *connection, const void *packet, size_t size, int fd)
{
	return !connection->outgoing.first && send_now(connection, packet, size, fd);
}

bool rd_shm_connection_send(
	struct rd_shm_connection *connection, const void *packet, size_t size, int fd)
{
	bool sent = rd_shm_connection_try_send(connection, packet, size, fd);

	if (sent || (!connection->outgoing.first && errno != EAGAIN)) {
		rd_shm_fd_close(&fd);
		return sent;
	}
	if (!connection->outgoing.first)
		watch(connection, EPOLLIN | EPOLLOUT);
	return rd_shm_queue_add(&connection->outgoing, packet, size, fd);
}

void rd_shm_connection_flush(struct rd_shm_connection *connection)
{
	struct rd_shm_queued *first;

	while (rd_shm_connection_is_open(connection) && (first = connection->outgoing.first)) {
		if (!send_now(connection, &first->packet, first->size, first->fd) &&
			errno == EAGAIN)
			return;
		rd_shm_queued_free(rd_shm_queue_take(&connection->outgoing));
		if (!connection->outgoing.first)
			watch(connection, EPOLLIN);
	}
}

static void send_end(struct rd_shm_connection *connection, uint64_t comm_id)
{
	struct rd_shm_end end = rd_shm_end_of(comm_id, false);

	if (rd_shm_connection_is_open(connection))
		rd_shm_connection_send(connection, &end, sizeof(end), -1);
}

/* ---- The handshake --------------------------------------------------------------------------- */

static bool send_hello(const struct rd_shm_connection *connection)
{
	const struct rd_shm_station *station = connection->station;
	struct rd_shm_hello hello =
		rd_shm_hello_to(&station->card, &connection->card, station->barriers);

	return send_now(connection, &hello, sizeof(hello), station->wake_fd);
}

static bool eventfd_valid(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_NONBLOCK;
}

void rd_shm_connection_connect(struct rd_shm_connection *connection)
{
	struct sockaddr_un address;
	socklen_t size = rd_shm_card_address(&connection->card, &address);

	if (connect(connection->fd, (struct sockaddr *)&address, size)) {
		if (errno != EAGAIN && errno != EINTR)
			rd_shm_connection_fail(
				connection, RONDO_BROKEN, "does not listen for shm any more");
	} else if (!rd_shm_is_own_user(connection->fd, &connection->pid)) {
		rd_shm_connection_fail(connection, RONDO_BROKEN, "belongs to another user");
	} else if (!send_hello(connection) ||
		   rd_event_watch(connection->station->epoll_fd, EPOLL_CTL_ADD, connection->fd,
			   EPOLLIN, &connection->source)) {
		rd_shm_connection_fail(connection, RONDO_BROKEN, closed_early);
	} else {
		connection->state = RD_SHM_GREETED;
		tell_all(connection);
	}
}

/* The first packet from the peer has come. */
static void begin(struct rd_shm_connection *connection, int wake_fd, bool barriers)
{
	connection->wake_fd = wake_fd;
	connection->fenced = !barriers || !connection->station->barriers;
	connection->state = RD_SHM_CONNECTED;
	tell_all(connection);
}

void rd_shm_connection_adopt(
	struct rd_shm_connection *connection, int fd, pid_t pid, int wake_fd, bool barriers)
{
	connection->fd = fd;
	connection->pid = pid;
	begin(connection, wake_fd, barriers);
	if (!eventfd_valid(wake_fd))
		rd_shm_connection_fail(
			connection, RONDO_PROTOCOL, "sent no eventfd, as was agreed");
	else if (rd_event_watch(connection->station->epoll_fd, EPOLL_CTL_MOD, fd, EPOLLIN,
			 &connection->source) ||
		 !send_hello(connection))
		rd_shm_connection_fail(connection, RONDO_BROKEN, closed_early);
}

/* Takes the descriptor. */
static void take_answer(struct rd_shm_connection *connection, const struct rd_shm_hello *hello,
	enum rd_shm_kind kind, int *fd)
{
	if (kind != RD_SHM_HELLO || !rd_shm_hello_valid(hello, &connection->station->card) ||
		memcmp(hello->from.name, connection->card.name, sizeof(hello->from.name)) != 0 ||
		!eventfd_valid(*fd)) {
		rd_shm_connection_fail(
			connection, RONDO_PROTOCOL, "answered with a greeting that makes no sense");
		return;
	}
	begin(connection, *fd, hello->barriers);
	*fd = -1;
}

/* ---- Packets of pairs ------------------------------------------------------------------------ */

void rd_shm_connection_refuse(struct rd_shm_connection *connection, uint64_t comm_id)
{
	struct rd_shm_queue refused = { NULL, NULL };

	rd_shm_queue_move(&connection->early, &refused, comm_id);
	if (!refused.first)
		return;
	connection->early_count--;
	send_end(connection, comm_id);
	rd_shm_queue_finish(&refused);
}

/* No pair is there for it: a greeting waits for one, and its end makes it void. */
static void keep_early(struct rd_shm_connection *connection, const union rd_shm_packet *packet,
	enum rd_shm_kind kind, int *fd)
{
	struct rd_shm_queue ended = { NULL, NULL };
	uint64_t comm_id = packet->any.comm_id;

	rd_shm_queue_move(&connection->early, &ended, comm_id);
	connection->early_count -= ended.first != NULL;
	rd_shm_queue_finish(&ended);
	if (kind != RD_SHM_GREETING)
		return;
	if (connection->early_count == EARLY_MOST)
		rd_shm_connection_refuse(connection, connection->early.first->packet.any.comm_id);
	if (rd_shm_queue_add(&connection->early, packet, sizeof(packet->greeting), *fd))
		connection->early_count++;
	else
		send_end(connection, comm_id);
	*fd = -1;
}

/* Takes the descriptor. */
static void deliver(struct rd_shm_connection *connection, const union rd_shm_packet *packet,
	enum rd_shm_kind kind, size_t size, int *fd)
{
	struct rd_shm_inbox *inbox = find_inbox(connection, packet->any.comm_id);

	if (!inbox) {
		keep_early(connection, packet, kind, fd);
		return;
	}
	if (rd_shm_queue_add(&inbox->packets, packet, size, *fd))
		tell(connection, inbox);
	else
		rd_shm_connection_fail(connection, RONDO_MEMORY,
			"sent a packet for which this rank has no memory");
	*fd = -1;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void read_packet(struct rd_shm_connection *connection, const union rd_shm_packet *packet,
	ssize_t size, int *fd)
{
	enum rd_shm_kind kind = rd_shm_packet_kind(packet, size < 0 ? 0 : (size_t)size);

	/* The peer closed before it read our packets. Its own can still be read after this
	   error. */
	if (size < 0 && errno == ECONNRESET && !connection->reset)
		connection->reset = true;
	else if (size > 0 && connection->state == RD_SHM_GREETED)
		take_answer(connection, &packet->hello, kind, fd);
	else if (kind == RD_SHM_INVALID || kind == RD_SHM_HELLO)
		rd_shm_connection_fail(connection, RONDO_BROKEN, closed_early);
	else
		deliver(connection, packet, kind, (size_t)size, fd);
}

bool rd_shm_connection_handle(void *owner)
{
	struct rd_shm_connection *connection = owner;
	union rd_shm_packet packet;
	ssize_t size;
	int fds[2];

	if (!rd_shm_connection_is_open(connection))
		return false;
	rd_shm_connection_flush(connection);
	size = rd_shm_packet_recv(connection->fd, &packet, sizeof(packet), fds);
	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	read_packet(connection, &packet, size, &fds[0]);
	rd_shm_fd_close(&fds[0]);
	rd_shm_fd_close(&fds[1]);
	return true;
}

/* ---- Creation -------------------------------------------------------------------------------- */

static int create(struct rd_shm_connection **made, struct rd_shm_station *station,
	const struct rd_shm_card *card)
{
	struct rd_shm_connection *connection = calloc(1, sizeof(*connection));

	if (!connection)
		return rd_fail(RONDO_MEMORY, "no memory for a connection");
	*connection = (struct rd_shm_connection){
		.source = { rd_shm_connection_handle, connection },
		.station = station,
		.card = *card,
		.fd = -1,
		.wake_fd = -1,
	};
	*made = connection;
	if (!rd_shm_card_connects(&station->card, card))
		return 0;
	connection->state = RD_SHM_CONNECTING;
	connection->fd =
		rd_above_stderr(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (connection->fd >= 0)
		return 0;
	rd_fail_errno("socket");
	free(connection);
	return RONDO_SYSTEM;
}

/* One that has ended may have pairs that have not. */
static bool leads_to(const struct rd_shm_connection *connection, const struct rd_shm_card *card)
{
	return connection->state != RD_SHM_ENDED &&
	       memcmp(connection->card.name, card->name, sizeof(card->name)) == 0;
}

int rd_shm_connection_get(struct rd_shm_connection **result, struct rd_shm_station *station,
	const struct rd_shm_card *card)
{
	struct rd_shm_connection *connection = station->connections;
	int err;

	while (connection && !leads_to(connection, card))
		connection = connection->next;
	if (!connection) {
		err = create(&connection, station, card);
		if (err)
			return err;
		connection->next = station->connections;
		station->connections = connection;
	}
	*result = connection;
	return 0;
}
