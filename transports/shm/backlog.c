#include "transports/shm/backlog.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/port.h"
#include "net/socket.h"
#include "transports/shm/socket.h"

static void stranger_drop(struct rd_shm_stranger *stranger)
{
	rd_event_close(stranger->strangers->endpoint->epoll_fd, &stranger->fd);
	rd_shm_fd_close(&stranger->fds[0]);
	rd_shm_fd_close(&stranger->fds[1]);
	stranger->greeted = false;
}

/* Hands over a stranger that has greeted, if its pair has been created. */
static void stranger_match(struct rd_shm_stranger *stranger)
{
	struct rd_shm_pair *pair =
		rd_shm_pair_find(stranger->strangers->endpoint, (int)stranger->greeting.from);

	if (pair && pair->state == RD_SHM_PAIR_AWAITED) {
		rd_shm_pair_adopt(
			pair, stranger->fd, stranger->pid, &stranger->greeting, stranger->fds);
		stranger->fd = stranger->fds[0] = stranger->fds[1] = -1;
		stranger->greeted = false;
	} else if (pair) {
		stranger_drop(stranger);
	}
}

static bool stranger_handle(void *owner)
{
	struct rd_shm_stranger *stranger = owner;
	const struct rd_shm_endpoint *endpoint = stranger->strangers->endpoint;
	enum rd_shm_received received;

	/* An earlier event of the same poll has closed it. */
	if (stranger->fd < 0)
		return false;
	/* It waits for its pair: another packet, or the end, is an error. */
	if (stranger->greeted) {
		stranger_drop(stranger);
		return true;
	}
	received = rd_shm_greeting_recv(stranger->fd, &stranger->greeting, stranger->fds, 2);
	if (received == RD_SHM_RECEIVED_NOTHING)
		return false;
	if (received == RD_SHM_RECEIVED_INVALID ||
		!rd_shm_greeting_valid(&stranger->greeting, endpoint->local, endpoint->card.key)) {
		stranger_drop(stranger);
		return true;
	}
	stranger->greeted = true;
	stranger_match(stranger);
	return true;
}

/* Returns a free place, or that of the oldest stranger without a greeting. NULL: all have
   greeted. */
static struct rd_shm_stranger *stranger_place(struct rd_shm_strangers *strangers)
{
	struct rd_shm_stranger *oldest = NULL;

	for (int i = 0; i < RD_SHM_STRANGERS_MAX; i++) {
		struct rd_shm_stranger *stranger = &strangers->at[i];

		if (stranger->fd < 0)
			return stranger;
		if (!stranger->greeted && (!oldest || stranger->age < oldest->age))
			oldest = stranger;
	}
	if (oldest)
		stranger_drop(oldest);
	return oldest;
}

/* Logs once what comes again and again. Where it is forbidden, pairs go on over another transport
   at once. */
static void refuse_all(struct rd_shm_strangers *strangers, int error)
{
	if (rd_is_forbidden(error)) {
		rd_event_watch(
			strangers->endpoint->epoll_fd, EPOLL_CTL_DEL, strangers->listener, 0, NULL);
		strangers->forbidden = error;
		rd_shm_pairs_fail_awaited(strangers->endpoint, error);
	} else if (!rd_lacks_resources(error) || strangers->lacked) {
		return;
	}
	strangers->lacked = true;
	rd_log(RD_WARN, RD_NET, "NET/SHM : rank %d cannot accept a connection: %s",
		strangers->endpoint->local->rank, strerror(error));
}

static bool listener_handle(void *owner)
{
	struct rd_shm_strangers *strangers = owner;
	struct rd_shm_stranger *stranger = stranger_place(strangers);

	if (!stranger)
		return false;
	int fd = rd_above_stderr(
		accept4(strangers->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));

	if (fd < 0) {
		refuse_all(strangers, errno);
		return false;
	}
	stranger->fd = fd;
	stranger->age = strangers->age++;
	if (!rd_shm_is_own_user(fd, &stranger->pid) ||
		rd_event_watch(strangers->endpoint->epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN,
			&stranger->source))
		stranger_drop(stranger);
	else
		stranger_handle(stranger);
	return true;
}

void rd_shm_strangers_init(struct rd_shm_strangers *strangers, struct rd_shm_endpoint *endpoint)
{
	strangers->endpoint = endpoint;
	strangers->source = (struct rd_event_source){ listener_handle, strangers };
	strangers->listener = -1;
	strangers->age = 0;
	strangers->lacked = false;
	strangers->forbidden = 0;
	for (int i = 0; i < RD_SHM_STRANGERS_MAX; i++)
		strangers->at[i] = (struct rd_shm_stranger){
			.source = { stranger_handle, &strangers->at[i] },
			.strangers = strangers,
			.fd = -1,
			.fds = { -1, -1 },
		};
}

int rd_shm_strangers_listen(struct rd_shm_strangers *strangers)
{
	const struct rd_shm_endpoint *endpoint = strangers->endpoint;
	struct sockaddr_un address;
	socklen_t size = rd_shm_card_address(&endpoint->card, &address);
	int fd = rd_above_stderr(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	strangers->listener = fd;
	if (fd < 0)
		return rd_fail_errno("socket");
	if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, RD_BACKLOG))
		return rd_fail_errno("cannot listen on an abstract Unix socket");
	if (rd_event_watch(endpoint->epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN, &strangers->source))
		return rd_fail_errno("epoll_ctl");
	return 0;
}

void rd_shm_strangers_match(struct rd_shm_strangers *strangers)
{
	for (int i = 0; i < RD_SHM_STRANGERS_MAX; i++)
		if (strangers->at[i].greeted)
			stranger_match(&strangers->at[i]);
	if (strangers->forbidden)
		rd_shm_pairs_fail_awaited(strangers->endpoint, strangers->forbidden);
}

void rd_shm_strangers_finish(struct rd_shm_strangers *strangers)
{
	for (int i = 0; i < RD_SHM_STRANGERS_MAX; i++)
		stranger_drop(&strangers->at[i]);
	rd_event_close(strangers->endpoint->epoll_fd, &strangers->listener);
}

void rd_shm_strangers_abandon(struct rd_shm_strangers *strangers)
{
	for (int i = 0; i < RD_SHM_STRANGERS_MAX; i++) {
		rd_shm_fd_close(&strangers->at[i].fd);
		rd_shm_fd_close(&strangers->at[i].fds[0]);
		rd_shm_fd_close(&strangers->at[i].fds[1]);
	}
	rd_shm_fd_close(&strangers->listener);
}
