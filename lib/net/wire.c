#include "net/wire.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "base/error.h"

int rd_wire_secure(struct rd_wire *wire, bool accepts, const unsigned char psk[RD_PSK_SIZE])
{
	int yes = 1;

	/* The handshake's end and the first message are two small writes: the second one would wait
	   for the acknowledgement of the first. */
	setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	wire->tls = rd_tls_create(wire->fd, accepts, psk);
	return wire->tls ? 0 : rd_fail(RONDO_MEMORY, "no memory for the keys of a connection");
}

int rd_wire_prove(struct rd_wire *wire)
{
	int result = wire->tls && !wire->keyed ? rd_tls_handshake(wire->tls) : 1;

	wire->keyed = wire->tls ? result > 0 : wire->keyed;
	return result;
}

void rd_wire_strip(struct rd_wire *wire)
{
	rd_tls_destroy(wire->tls);
	wire->tls = NULL;
}

void rd_wire_keep_buffers(struct rd_wire *wire)
{
	if (wire->tls)
		rd_tls_keep_buffers(wire->tls);
}

int rd_wire_release(struct rd_wire *wire)
{
	int fd = wire->fd;

	rd_wire_strip(wire);
	wire->fd = -1;
	return fd;
}

void rd_wire_close(struct rd_wire *wire)
{
	int fd = rd_wire_release(wire);

	if (fd >= 0)
		close(fd);
}

ssize_t rd_wire_recv(struct rd_wire *wire, const struct iovec *iov, size_t count)
{
	struct msghdr message = { .msg_iov = (struct iovec *)iov, .msg_iovlen = count };

	if (wire->tls)
		return rd_tls_recv(wire->tls, iov, count);
	/* For a small message, recv() is some percent faster than recvmsg(). */
	if (count == 1)
		return recv(wire->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT);
	return recvmsg(wire->fd, &message, MSG_DONTWAIT);
}

ssize_t rd_wire_send(struct rd_wire *wire, const struct iovec *iov, size_t count)
{
	struct msghdr message = { .msg_iov = (struct iovec *)iov, .msg_iovlen = count };

	if (wire->tls)
		return rd_tls_send(wire->tls, iov, count);
	if (count == 1)
		return send(wire->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sendmsg(wire->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t rd_wire_peek(struct rd_wire *wire)
{
	char byte;

	return wire->tls ? rd_tls_peek(wire->tls)
			 : recv(wire->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}
