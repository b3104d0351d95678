/*
 * A connected socket that does not block, plain or with TLS. The two sides agree beforehand: with
 * TLS, no byte is the caller's before the peer has proved itself.
 *
 * Copying a wire moves it: one copy alone may be used further.
 */
#ifndef RD_WIRE_H
#define RD_WIRE_H

#include <stdbool.h>
#include <sys/socket.h>

#include "secure/tls.h"

struct rd_wire {
	int fd; /* -1: none; the wire's */
	struct rd_tls *tls; /* NULL: plain */
	bool keyed; /* the peer has proved that it has the key */
};

/* A plain one, which owns the descriptor; -1: none. */
#define RD_WIRE(fd) \
	{ \
		fd, NULL, false \
	}

/* Before the first byte: from now on the wire needs the peer's proof. accepts: this end accepted
   the connection. RONDO_MEMORY. */
int rd_wire_secure(struct rd_wire *wire, bool accepts, const unsigned char psk[RD_PSK_SIZE]);

/* Goes on with the proof, after each event of the socket. 1: the peer has proved itself, or need
   not; 0: not yet; -1: it has failed, with errno. */
int rd_wire_prove(struct rd_wire *wire);

/* After the proof: continues without encryption. Both sides do so, before any further byte. */
void rd_wire_strip(struct rd_wire *wire);

/* For a wire that carries calls, which allocate nothing. When: see rd_tls_keep_buffers(). */
void rd_wire_keep_buffers(struct rd_wire *wire);

/* Frees the TLS session, and gives back the descriptor, which stays open; -1: none. */
int rd_wire_release(struct rd_wire *wire);
/* Closes. A wire without a descriptor may be closed again. */
void rd_wire_close(struct rd_wire *wire);

/* As recvmsg() and sendmsg() with MSG_DONTWAIT, without SIGPIPE; see tls.h. */
ssize_t rd_wire_recv(struct rd_wire *wire, const struct iovec *iov, size_t count);
ssize_t rd_wire_send(struct rd_wire *wire, const struct iovec *iov, size_t count);
/* As recv() of a byte with MSG_PEEK. */
ssize_t rd_wire_peek(struct rd_wire *wire);

#endif
