#include "transports/shm/backlog.h"

#include <errno.h>
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
	rd_event_close(pending->backlog->endpoint->epoll_fd, &pending->fd);
	rd_shm_fd_close(&pending->fds[0]);
	rd_shm_fd_close(&pending->fds[1]);
	pending->greeted = false;
}

/* Hands over a connection that has greeted, if its pair has been created. */
static void pending_match(struct rd_shm_pending *pending)
{
	struct rd_shm_pair *pair =
		rd_shm_pair_find(pending->backlog->endpoint, (int)pending->greeting.from);

	if (pair && pair->state == RD_SHM_PAIR_AWAITED) {
		rd_shm_pair_adopt(
			pair, pending->fd, pending->pid, &pending->greeting, pending->fds);
		pending->fd = pending->fds[0] = pending->fds[1] = -1;
		pending->greeted = false;
	} else if (pair) {
		pending_drop(pending);
	}
}

static bool pending_handle(void *owner)
{
	struct rd_shm_pending *pending = owner;
	const struct rd_shm_endpoint *endpoint = pending->backlog->endpoint;
	enum rd_shm_received received;

	/* An earlier event of the same poll has closed it. */
	if (pending->fd < 0)
		return false;
	/* It waits for its pair: another packet, or the end, is an error. */
	if (pending->greeted) {
		pending_drop(pending);
		return true;
	}
	received = rd_shm_greeting_recv(pending->fd, &pending->greeting, pending->fds, 2);
	if (received == RD_SHM_RECEIVED_NOTHING)
		return false;
	if (received == RD_SHM_RECEIVED_INVALID ||
		!rd_shm_greeting_valid(&pending->greeting, endpoint->local)) {
		pending_drop(pending);
		return true;
	}
	pending->greeted = true;
	pending_match(pending);
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
			.fds = { -1, -1 },
		};
	return pending;
}

/* Returns a free place, or that of the oldest connection without a greeting. NULL: all have
   greeted, or no memory. */
static struct rd_shm_pending *pending_place(struct rd_shm_backlog *backlog)
{
	struct rd_shm_pending *oldest = NULL;

	for (int i = 0; i < RD_SHM_BACKLOG_MAX; i++) {
		struct rd_shm_pending *pending = backlog->at[i];

		if (!pending)
			return backlog->at[i] = pending_create(backlog);
		if (pending->fd < 0)
			return pending;
		if (!pending->greeted && (!oldest || pending->age < oldest->age))
			oldest = pending;
	}
	if (oldest)
		pending_drop(oldest);
	return oldest;
}

/* Logs once what comes again and again. Where it is forbidden, pairs go on over another transport
   at once. */
static void refuse_all(struct rd_shm_backlog *backlog, int error)
{
	if (rd_is_forbidden(error)) {
		rd_event_watch(
			backlog->endpoint->epoll_fd, EPOLL_CTL_DEL, backlog->listener, 0, NULL);
		backlog->forbidden = error;
		rd_shm_pairs_fail_awaited(backlog->endpoint, error);
	} else if (!rd_lacks_resources(error) || backlog->lacked) {
		return;
	}
	backlog->lacked = true;
	rd_log(RD_WARN, RD_NET, "NET/SHM : rank %d cannot accept a connection: %s",
		backlog->endpoint->local->rank, strerror(error));
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
			backlog->endpoint->epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN, &pending->source))
		pending_drop(pending);
	else
		pending_handle(pending);
	return true;
}

void rd_shm_backlog_init(struct rd_shm_backlog *backlog, struct rd_shm_endpoint *endpoint)
{
	backlog->endpoint = endpoint;
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
	const struct rd_shm_endpoint *endpoint = backlog->endpoint;
	struct sockaddr_un address;
	socklen_t size = rd_shm_card_address(&endpoint->card, &address);
	int fd = rd_above_stderr(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	backlog->listener = fd;
	if (fd < 0)
		return rd_fail_errno("socket");
	if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, RD_BACKLOG))
		return rd_fail_errno("cannot listen on an abstract Unix socket");
	if (rd_event_watch(endpoint->epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN, &backlog->source))
		return rd_fail_errno("epoll_ctl");
	return 0;
}

void rd_shm_backlog_match(struct rd_shm_backlog *backlog)
{
	for (int i = 0; i < RD_SHM_BACKLOG_MAX && backlog->at[i]; i++)
		if (backlog->at[i]->greeted)
			pending_match(backlog->at[i]);
	if (backlog->forbidden)
		rd_shm_pairs_fail_awaited(backlog->endpoint, backlog->forbidden);
}

void rd_shm_backlog_finish(struct rd_shm_backlog *backlog)
{
	for (int i = 0; i < RD_SHM_BACKLOG_MAX && backlog->at[i]; i++) {
		pending_drop(backlog->at[i]);
		free(backlog->at[i]);
	}
	rd_event_close(backlog->endpoint->epoll_fd, &backlog->listener);
}

void rd_shm_backlog_abandon(struct rd_shm_backlog *backlog)
{
	for (int i = 0; i < RD_SHM_BACKLOG_MAX && backlog->at[i]; i++) {
		rd_shm_fd_close(&backlog->at[i]->fd);
		rd_shm_fd_close(&backlog->at[i]->fds[0]);
		rd_shm_fd_close(&backlog->at[i]->fds[1]);
		free(backlog->at[i]);
	}
	rd_shm_fd_close(&backlog->listener);
}
