/*
 * A connection that goes on over another socket, where the network resets its own. It keeps the
 * bytes that it has sent and that the other kernel has not acknowledged, and counts those that it
 * has received. These are the socket's bytes, below TLS. An acknowledged byte lies in the other
 * kernel, where it can be read even after a reset. So none is lost, and none comes twice.
 *
 * One thread at a time.
 */
#ifndef RD_RESUME_H
#define RD_RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct rd_resume {
	uint64_t sent, received; /* bytes, over all sockets */
	uint64_t given; /* of those sent, to the present socket; fewer while it sends again */
	uint64_t acknowledged; /* of those sent, as far as is known */
	char *ring; /* [size]: bytes acknowledged to sent; byte n lies at n modulo size */
	size_t size; /* a power of two, or 0 */
	bool unable; /* it had no memory for bytes: the connection ends with this socket */
	char *early; /* [early_size]: bytes of earlier sockets; read up to early_at */
	size_t early_at, early_size;
	int error; /* errno of the socket, which has failed; 0: it has not */
	/* This side answered on the socket, and the answer may be lost with it: the peer then
	   leaves the socket unread, and what its kernel acknowledges counts for nothing. */
	bool unconfirmed;
};

/* received: bytes that have been read from the socket, and belong to this. NULL: no memory. */
struct rd_resume *rd_resume_create(uint64_t received);
void rd_resume_destroy(struct rd_resume *resume);

/* As sendmsg() and recvmsg() without blocking. EAGAIN where the socket has failed: `error` tells.
   The peer's end of the connection is an end here, too. */
ssize_t rd_resume_send(struct rd_resume *resume, int fd, const struct iovec *iov, size_t count);
ssize_t rd_resume_recv(struct rd_resume *resume, int fd, const struct iovec *iov, size_t count);
/* As recv() of a byte with MSG_PEEK. */
ssize_t rd_resume_peek(struct rd_resume *resume, int fd);

/* Reads all that has arrived, before the socket is closed: false, if there is no memory for it. */
bool rd_resume_leave(struct rd_resume *resume, int fd);

/* The two sides of another socket: one has asked to go on, and has the answer of the other. */
enum rd_resume_side { RD_RESUME_ASKED, RD_RESUME_ANSWERED };

/*
 * Goes on over this socket, of which these bytes have been read. peer_received: what the peer has
 * received. The side that has asked first sends a byte, which confirms that it has the answer.
 * 0; EPROTO: bytes that the peer needs are gone, or it sent some too early; ENOMEM.
 */
int rd_resume_go_on(struct rd_resume *resume, int fd, enum rd_resume_side side,
	uint64_t peer_received, const void *bytes, size_t size);

/* Sends again what the peer has not received. True: nothing is left. */
bool rd_resume_send_again(struct rd_resume *resume, int fd);

#endif
