#include "bootstrap/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/port.h"

#define STRANGERS_MAX 16 /* a call hangs up on */
#define NAMES_MAX 64 /* attempts: containers may share a network, and number processes alike */

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

int rd_status_open(struct rd_status *status, uint64_t launch_id)
{
	int fd = rd_above_stderr(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
	    saved;

	status->listen_fd = -1;
	if (fd < 0)
		return -1;
	if (bind_name(fd, launch_id) || listen(fd, RD_BACKLOG)) {
		saved = errno;
		close(fd);
		errno = saved;
		return -1;
	}
	status->listen_fd = fd;
	rd_close_on_fork_add(&status->unshared, &status->listen_fd);
	return 0;
}

void rd_status_close(struct rd_status *status)
{
	if (status->listen_fd < 0)
		return;
	rd_close_on_fork_remove(&status->unshared);
	close(status->listen_fd);
	status->listen_fd = -1;
}

/* An abstract name has no permissions, but the kernel tells who connects. */
static bool may_ask(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

int rd_status_accept(struct rd_status *status)
{
	for (int i = 0; i < STRANGERS_MAX; i++) {
		int fd = rd_above_stderr(
			accept4(status->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));

		if (fd < 0 || may_ask(fd))
			return fd;
		close(fd);
	}
	errno = EAGAIN;
	return -1;
}

void rd_status_send(int fd, const char *text, size_t size)
{
	/* One that closes its end early loses the rest. */
	if (send(fd, text, size, MSG_NOSIGNAL) < 0)
		shutdown(fd, SHUT_RDWR);
	close(fd);
}
