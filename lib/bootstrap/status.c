#include "bootstrap/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/port.h"
#include "net/socket.h"

#define FOREIGN_MAX 16 /* a call hangs up on */
#define NAMES_MAX 64 /* attempts: containers may share a network, and number processes alike */

/* ---- The socket ------------------------------------------------------------------------------ */

static int bind_name(int fd, uint64_t launch_id)
{
	static _Atomic unsigned count;
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int length, error;

	for (int i = 0; i < NAMES_MAX; i++) {
		length = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1,
			RD_STATUS_NAME ".%d.%u.%016" PRIx64, (int)getpid(),
			atomic_fetch_add(&count, 1), launch_id);
		error = bind(fd, (struct sockaddr *)&at,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) +
				(socklen_t)length);
		if (error == 0 || errno != EADDRINUSE)
			return error;
	}
	return -1;
}

/* Each event wakes the thread once: where no connection can be accepted, the backlog does not wake
   it again and again. */
static int watch(struct rd_status *status, int operation)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.ptr = status->mark };

	return epoll_ctl(status->epoll_fd, operation, status->listen_fd, &event);
}

void rd_status_init(struct rd_status *status)
{
	*status = (struct rd_status){ .listen_fd = -1, .epoll_fd = -1, .fd = -1 };
}

int rd_status_open(struct rd_status *status, uint64_t launch_id, int epoll_fd, void *mark)
{
	int fd = rd_above_stderr(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	rd_status_init(status);
	if (fd < 0)
		return -1;
	status->listen_fd = fd;
	status->epoll_fd = epoll_fd;
	status->mark = mark;
	if (bind_name(fd, launch_id) || listen(fd, RD_BACKLOG) || watch(status, EPOLL_CTL_ADD)) {
		status->listen_fd = -1;
		return rd_close_failed(fd);
	}
	rd_close_on_fork_add(&status->unshared, &status->listen_fd);
	return 0;
}

static void hang_up(struct rd_status *status)
{
	free(status->text);
	status->text = NULL;
	if (status->fd < 0)
		return;
	if (status->waits)
		epoll_ctl(status->epoll_fd, EPOLL_CTL_DEL, status->fd, NULL);
	status->waits = false;
	rd_close_unshared(&status->unshared_answer, &status->fd);
}

void rd_status_close(struct rd_status *status)
{
	hang_up(status);
	if (status->listen_fd < 0)
		return;
	epoll_ctl(status->epoll_fd, EPOLL_CTL_DEL, status->listen_fd, NULL);
	rd_close_unshared(&status->unshared, &status->listen_fd);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* An abstract name has no permissions, but the kernel tells who connects. */
static bool may_ask(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

/* Those behind it come with the next event. */
static void end_answer(struct rd_status *status)
{
	hang_up(status);
	watch(status, EPOLL_CTL_MOD);
}

static void send_more(struct rd_status *status, int64_t now_ms)
{
	struct epoll_event event = { .events = EPOLLOUT, .data.ptr = status->mark };
	ssize_t sent = 0;

	while (status->sent < status->size && sent >= 0) {
		sent = send(status->fd, status->text + status->sent, status->size - status->sent,
			MSG_NOSIGNAL);
		if (sent > 0)
			status->sent += (size_t)sent;
	}
	if (status->sent == status->size || errno != EAGAIN || now_ms >= status->end_ms) {
		end_answer(status);
		return;
	}
	if (status->waits)
		return;
	if (epoll_ctl(status->epoll_fd, EPOLL_CTL_ADD, status->fd, &event))
		end_answer(status);
	else
		status->waits = true;
}

bool rd_status_accept(struct rd_status *status, int64_t now_ms)
{
	if (status->fd >= 0)
		send_more(status, now_ms);
	if (status->fd >= 0 || status->listen_fd < 0)
		return false;
	for (int i = 0; i < FOREIGN_MAX; i++) {
		status->fd = rd_accept(status->listen_fd);
		if (status->fd < 0) {
			if (!rd_lacks_resources(errno) && !rd_is_forbidden(errno))
				watch(status, EPOLL_CTL_MOD);
			return false;
		}
		rd_close_on_fork_add(&status->unshared_answer, &status->fd);
		if (may_ask(status->fd))
			return true;
		hang_up(status);
	}
	watch(status, EPOLL_CTL_MOD);
	return false;
}

void rd_status_answer(struct rd_status *status, char *text, size_t size, int64_t now_ms)
{
	status->text = text;
	status->size = text ? size : 0;
	status->sent = 0;
	status->end_ms = now_ms + RD_STATUS_ANSWER_MS;
	send_more(status, now_ms);
}

int64_t rd_status_deadline(const struct rd_status *status)
{
	return status->waits ? status->end_ms : RD_NEVER;
}
