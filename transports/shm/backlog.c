#include "transports/shm/backlog.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/port.h"
#include "net/socket.h"
#include "transports/shm/socket.h"

static void pending_drop(struct rd_shm_pending *pending)
{
	rd_event_close(pending->backlog->station->epoll_fd, &pending->fd);
}

/* A second connection of a station is an error of it. Takes the descriptor. */
static void pending_adopt(
	struct rd_shm_pending *pending, const struct rd_shm_hello *hello, int *wake_fd)
{
	struct rd_shm_station *station = pending->backlog->station;
	struct rd_shm_connection *connection;

	if (rd_shm_card_connects(&station->card, &hello->from))
		return;
	if (rd_shm_connection_get(&connection, station, &hello->from) ||
		connection->state != RD_SHM_AWAITED)
		return;
	rd_shm_connection_adopt(connection, pending->fd, pending->pid, *wake_fd, hello->barriers);
	pending->fd = *wake_fd = -1;
}

static bool pending_handle(void *owner)
{
	struct rd_shm_pending *pending = owner;
	union rd_shm_packet packet;
	ssize_t size;
	int fds[2];

	/* An earlier event of the same poll has closed it. */
	if (pending->fd < 0)
		return false;
	size = rd_shm_packet_recv(pending->fd, &packet, sizeof(packet), fds);
	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (size > 0 && rd_shm_packet_kind(&packet, (size_t)size) == RD_SHM_HELLO &&
		rd_shm_hello_valid(&packet.hello, &pending->backlog->station->card))
		pending_adopt(pending, &packet.hello, &fds[0]);
	rd_shm_fd_close(&fds[0]);
	rd_shm_fd_close(&fds[1]);
	pending_drop(pending);
	return true;
}

static struct rd_shm_pending *pending_create(struct rd_shm_backlog *backlog)
{
	struct rd_shm_pending *pending = malloc(sizeof(*pending));

	if (pending)
		*pending = (struct rd_shm_pending){
			.source = { pending_handle, pending },
			.backlog = backlog,
			.fd = -1,
		};
	return pending;
}

/* Returns a free place, or that of the oldest connection. NULL: no memory. */
static struct rd_shm_pending *pending_place(struct rd_shm_backlog *backlog)
{
	struct rd_shm_pending *oldest = NULL;

	for (int i = 0; i < RD_SHM_BACKLOG_MAX; i++) {
		struct rd_shm_pending *pending = backlog->at[i];

		if (!pending)
			return backlog->at[i] = pending_create(backlog);
		if (pending->fd < 0)
			return pending;
		if (!oldest || pending->age < oldest->age)
			oldest = pending;
	}
	pending_drop(oldest);
	return oldest;
}

void rd_shm_backlog_fail_awaited(const struct rd_shm_backlog *backlog)
{
	struct rd_shm_connection *connection = backlog->station->connections;
	char reason[160];

	if (!backlog->forbidden)
		return;
	snprintf(reason, sizeof(reason), "its connection could not be accepted: %s",
		strerror(backlog->forbidden));
	for (; connection; connection = connection->next)
		if (connection->state == RD_SHM_AWAITED)
			rd_shm_connection_fail(connection, RONDO_SYSTEM, reason);
}

/* Logs once what comes again and again. Where it is forbidden, pairs go on over another transport
   at once. */
static void refuse_all(struct rd_shm_backlog *backlog, int error)
{
	struct rd_shm_station *station = backlog->station;

	if (rd_is_forbidden(error)) {
		rd_event_watch(station->epoll_fd, EPOLL_CTL_DEL, backlog->listener, 0, NULL);
		backlog->forbidden = error;
		rd_shm_backlog_fail_awaited(backlog);
	} else if (!rd_lacks_resources(error) || backlog->lacked) {
		return;
	}
	backlog->lacked = true;
	rd_log(RD_WARN, RD_NET, "NET/SHM : rank %u cannot accept a connection: %s",
		station->card.number, strerror(error));
}

static bool listener_handle(void *owner)
{
	struct rd_shm_backlog *backlog = owner;
	struct rd_shm_pending *pending = pending_place(backlog);

	if (!pending)
		return false;

	int fd = rd_above_stderr(
		accept4(backlog->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));

	if (fd < 0) {
		refuse_all(backlog, errno);
		return false;
	}
	pending->fd = fd;
	pending->age = backlog->age++;
	if (!rd_shm_is_own_user(fd, &pending->pid) ||
		rd_event_watch(
			backlog->station->epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN, &pending->source))
		pending_drop(pending);
	else
		pending_handle(pending);
	return true;
}

void rd_shm_backlog_init(struct rd_shm_backlog *backlog, struct rd_shm_station *station)
{
	backlog->station = station;
	backlog->source = (struct rd_event_source){ listener_handle, backlog };
	backlog->listener = -1;
	backlog->age = 0;
	backlog->lacked = false;
	backlog->forbidden = 0;
	for (int i = 0; i < RD_SHM_BACKLOG_MAX; i++)
		backlog->at[i] = NULL;
}

int rd_shm_backlog_listen(struct rd_shm_backlog *backlog)
{
	const struct rd_shm_station *station = backlog->station;
	struct sockaddr_un address;
	socklen_t size = rd_shm_card_address(&station->card, &address);
	int fd = rd_above_stderr(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	backlog->listener = fd;
	if (fd < 0)
		return rd_fail_errno("socket");
	if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, RD_BACKLOG))
		return rd_fail_errno("cannot listen on an abstract Unix socket");
	if (rd_event_watch(station->epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN, &backlog->source))
		return rd_fail_errno("epoll_ctl");
	return 0;
}

void rd_shm_backlog_finish(struct rd_shm_backlog *backlog)
{
	for (int i = 0; i < RD_SHM_BACKLOG_MAX && backlog->at[i]; i++) {
		pending_drop(backlog->at[i]);
		free(backlog->at[i]);
	}
	rd_event_close(backlog->station->epoll_fd, &backlog->listener);
}

void rd_shm_backlog_abandon(struct rd_shm_backlog *backlog)
{
	for (int i = 0; i < RD_SHM_BACKLOG_MAX && backlog->at[i]; i++) {
		rd_shm_fd_close(&backlog->at[i]->fd);
		free(backlog->at[i]);
	}
	rd_shm_fd_close(&backlog->listener);
}
