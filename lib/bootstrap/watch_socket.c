#include "bootstrap/watch_socket.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptor.h"

#define PACKET_MAGIC 0x64617772u /* "rwad" */

/* The first byte is zero: an abstract address, with no file. */
static socklen_t fill_name(struct sockaddr_un *address, uint64_t comm_id, int rank)
{
	int length = sprintf(
		address->sun_path + 1, "rondo-watch-%016llx-%d", (unsigned long long)comm_id, rank);

	address->sun_family = AF_UNIX;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

bool rd_watch_socket_open(struct rd_watch_socket *watch_socket, uint64_t comm_id, int rank)
{
	struct sockaddr_un address = { 0 };
	socklen_t size = fill_name(&address, comm_id, rank);

	watch_socket->comm_id = comm_id;
	watch_socket->rank = rank;
	watch_socket->fd =
		rd_above_stderr(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (watch_socket->fd < 0)
		return false;
	rd_close_on_fork_add(&watch_socket->unshared, &watch_socket->fd);
	return !setsockopt(watch_socket->fd, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int)) &&
	       !bind(watch_socket->fd, (struct sockaddr *)&address, size);
}

void rd_watch_socket_close(struct rd_watch_socket *watch_socket)
{
	rd_close_unshared(&watch_socket->unshared, &watch_socket->fd);
}

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

/* The packet's size on its way. */
static size_t size_of(const struct rd_watch_packet *packet)
{
	return packet->kind == RD_WATCH_REPORTS ? sizeof(*packet)
						: offsetof(struct rd_watch_packet, death);
}

bool rd_watch_socket_send(const struct rd_watch_socket *watch_socket, int rank,
	struct rd_watch_packet *packet, int fd)
{
	struct sockaddr_un address = { 0 };
	socklen_t size = fill_name(&address, watch_socket->comm_id, rank);
	struct iovec bytes = { packet, size_of(packet) };
	union control control = { 0 };
	struct msghdr message = {
		.msg_name = &address, .msg_namelen = size, .msg_iov = &bytes, .msg_iovlen = 1
	};

	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(sizeof(fd));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	packet->magic = PACKET_MAGIC;
	packet->comm_id = watch_socket->comm_id;
	packet->from = watch_socket->rank;
	return sendmsg(watch_socket->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
	       (ssize_t)size_of(packet);
}

/* Keeps the first descriptor and closes the others. */
static void take_fds(const struct cmsghdr *header, int *fd)
{
	size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int fds[sizeof(union control) / sizeof(int)];

	memcpy(fds, CMSG_DATA(header), count * sizeof(int));
	for (size_t i = 1; i < count; i++)
		close(fds[i]);
	*fd = rd_above_stderr(fds[0]);
}

/* The descriptor in the message (-1: none), and the uid of its sender. */
static void read_control(struct msghdr *message, int *fd, uid_t *uid)
{
	struct ucred sender;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
		header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET)
			continue;
		if (header->cmsg_type == SCM_RIGHTS) {
			take_fds(header, fd);
		} else if (header->cmsg_type == SCM_CREDENTIALS) {
			memcpy(&sender, CMSG_DATA(header), sizeof(sender));
			*uid = sender.uid;
		}
	}
}

int rd_watch_socket_recv(
	const struct rd_watch_socket *watch_socket, struct rd_watch_packet *packet, int *fd)
{
	struct iovec bytes = { packet, sizeof(*packet) };
	union control control;
	struct msghdr message = { .msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	ssize_t got = recvmsg(watch_socket->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	uid_t uid = (uid_t)-1;

	*fd = -1;
	if (got < 0)
		return errno == EINTR ? 0 : -1;
	read_control(&message, fd, &uid);
	return got >= (ssize_t)offsetof(struct rd_watch_packet, death) &&
	       got == (ssize_t)size_of(packet) && !(message.msg_flags & MSG_TRUNC) &&
	       packet->magic == PACKET_MAGIC && packet->comm_id == watch_socket->comm_id &&
	       uid == getuid();
}
