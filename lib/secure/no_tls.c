/* In place of tls.c, where the build finds no OpenSSL. Nothing but rd_tls_load() is called. */
#include <errno.h>

#include "base/error.h"
#include "secure/tls.h"

int rd_tls_load(void)
{
	return rd_fail(RONDO_UNSUPPORTED, "this Rondo was built without OpenSSL");
}

void rd_tls_derive(unsigned char derived[RD_PSK_SIZE], const void *key, size_t key_size,
	const void *text, size_t text_size)
{
	(void)derived;
	(void)key;
	(void)key_size;
	(void)text;
	(void)text_size;
}

struct rd_tls *rd_tls_create(int fd, bool accepts, const unsigned char psk[RD_PSK_SIZE])
{
	(void)fd;
	(void)accepts;
	(void)psk;
	return NULL;
}

void rd_tls_destroy(struct rd_tls *tls)
{
	(void)tls;
}

void rd_tls_keep_buffers(struct rd_tls *tls)
{
	(void)tls;
}

int rd_tls_handshake(struct rd_tls *tls)
{
	(void)tls;
	errno = EPROTO;
	return -1;
}

bool rd_tls_has_shown_key(const struct rd_tls *tls)
{
	(void)tls;
	return false;
}

ssize_t rd_tls_recv(struct rd_tls *tls, const struct iovec *iov, size_t count)
{
	(void)tls;
	(void)iov;
	(void)count;
	errno = EPROTO;
	return -1;
}

ssize_t rd_tls_peek(struct rd_tls *tls)
{
	return rd_tls_recv(tls, NULL, 0);
}

ssize_t rd_tls_send(struct rd_tls *tls, const struct iovec *iov, size_t count)
{
	return rd_tls_recv(tls, iov, count);
}
