/*
 * TLS over a socket that does not block: version 1.3 (RFC 8446), without certificates. Each side
 * proves by the job's pre-shared key that it is of the job, and all bytes are encrypted. Keys of a
 * connection are its own (X25519), so a later theft of the job's key opens no recorded connection.
 * All of it is OpenSSL's; the socket is ours.
 *
 * A session belongs to one thread at a time.
 */
#ifndef RD_TLS_H
#define RD_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/settings.h"

/* Up to so many bytes may have left the socket, and wait for the rest of their record. */
#define RD_TLS_RECORD_SIZE (16 << 10)

struct rd_tls;

/* Whether TLS can be had: 0, or RONDO_UNSUPPORTED with the reason. Any thread. */
int rd_tls_load(void);

/* HMAC-SHA-256 of `text` by `key`: 32 bytes. After rd_tls_load(). */
void rd_tls_derive(unsigned char derived[RD_PSK_SIZE], const void *key, size_t key_size,
	const void *text, size_t text_size);

/*
 * A session on a connected socket, which stays the caller's and must outlive it. accepts: this end
 * accepted the connection. After rd_tls_load(); NULL: no memory.
 */
struct rd_tls *rd_tls_create(int fd, bool accepts, const unsigned char psk[RD_PSK_SIZE]);
/* Sends nothing. NULL is none. */
void rd_tls_destroy(struct rd_tls *tls);
/* For connections whose speed matters: the session has a longer buffer to read, and keeps all its
   buffers, 117 KiB, so that it need not allocate. Others have buffers only while bytes are under
   way. Called before the handshake, or while the peer has nothing to send. */
void rd_tls_keep_buffers(struct rd_tls *tls);

/*
 * Goes on with the handshake. 1: the peer has proved itself; 0: not yet, and more bytes must come;
 * -1: it has failed, with errno: EPROTO where the peer does not have the key. Before the peer's
 * proof at most 4 KiB of its bytes are read.
 */
int rd_tls_handshake(struct rd_tls *tls);
/* Whether the peer has shown the key in what it has sent so far. A replay may have, too. */
bool rd_tls_has_shown_key(const struct rd_tls *tls);

/* After the handshake: as recv(), with all buffers filled as far as bytes are there. A result of
   less than their size means that the socket is empty. */
ssize_t rd_tls_recv(struct rd_tls *tls, const struct iovec *iov, size_t count);
/* Looks at one byte, as recv() with MSG_PEEK. */
ssize_t rd_tls_peek(struct rd_tls *tls);
/*
 * After the handshake: as sendmsg(). The last byte that it takes is counted only when all has left
 * for the socket; the caller repeats bytes that are not counted, unchanged.
 */
ssize_t rd_tls_send(struct rd_tls *tls, const struct iovec *iov, size_t count);

#endif
