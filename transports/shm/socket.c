#include "transports/shm/socket.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"

bool rd_shm_is_own_user(int socket, pid_t *pid)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.uid != geteuid())
		return false;
	*pid = peer.pid;
	return true;
}

bool rd_shm_packet_send(
	int socket, const void *packet, size_t size, const int *fds, size_t fd_count)
{
	struct iovec bytes = { (void *)packet, size };
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };

	if (fd_count > 0) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof(int));
	}
	return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static void take_fds(struct msghdr *packet, int fds[2])
{
	struct cmsghdr *header = CMSG_FIRSTHDR(packet);

	if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
		return;
	size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	memcpy(fds, CMSG_DATA(header), count * sizeof(int));
	for (size_t i = 0; i < count; i++)
		fds[i] = rd_above_stderr(fds[i]);
}

ssize_t rd_shm_packet_recv(int socket, void *packet, size_t size, int fds[2])
{
	struct iovec bytes = { packet, size };
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct msghdr message = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	fds[0] = fds[1] = -1;

	ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got < 0)
		return got;
	take_fds(&message, fds);
	/* A truncated packet must not look valid. MSG_CTRUNC is no error here: it means only that
	   this process has no room for the descriptors. */
	return message.msg_flags & MSG_TRUNC ? 1 : got;
}
