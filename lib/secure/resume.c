#include "secure/resume.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define RING_LEAST ((size_t)16 << 10)
/* Above the largest socket buffers. */
#define RING_MOST ((size_t)256 << 20)
/* From so many bytes on, to ask the kernel costs less than to copy what it may have delivered. */
#define ASK_MIN ((size_t)16 << 10)
/* The buffer for bytes of a socket that is left grows by this. */
#define EARLY_STEP ((size_t)64 << 10)

struct rd_resume *rd_resume_create(uint64_t received)
{
	struct rd_resume *resume = calloc(1, sizeof(*resume));

	if (resume)
		resume->received = received;
	return resume;
}

void rd_resume_destroy(struct rd_resume *resume)
{
	if (!resume)
		return;
	free(resume->ring);
	free(resume->early);
	free(resume);
}

/* The network has ended the connection; the peer has not. */
static bool is_reset(int error)
{
	switch (error) {
	case ECONNRESET:
	case ECONNABORTED:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ENETUNREACH:
	case ENETDOWN:
	case ENETRESET:
		return true;
	default:
		return false;
	}
}

/* After a system call that has failed: -1, with EAGAIN where the connection can go on. */
static ssize_t fail(struct rd_resume *resume)
{
	if (is_reset(errno) && !resume->unable) {
		resume->error = errno;
		errno = EAGAIN;
	}
	return -1;
}

static ssize_t has_failed(void)
{
	errno = EAGAIN;
	return -1;
}

/* ---- Bytes that go ------------------------------------------------------------------------- */

/* Puts bytes, the first of which has this number, into a ring of this size. */
static void ring_put(char *ring, size_t ring_size, uint64_t number, const char *bytes, size_t size)
{
	size_t at = number & (ring_size - 1);
	size_t first = size < ring_size - at ? size : ring_size - at;

	memcpy(ring + at, bytes, first);
	memcpy(ring, bytes + first, size - first);
}

/* The bytes of the ring from this number on that lie in one piece; at most to `end`. */
static const char *ring_piece(
	const struct rd_resume *resume, uint64_t number, uint64_t end, size_t *size)
{
	size_t at = number & (resume->size - 1);

	*size = end - number < resume->size - at ? (size_t)(end - number) : resume->size - at;
	return resume->ring + at;
}

/* Makes room for so many bytes that are not acknowledged. */
static bool ring_grow(struct rd_resume *resume, uint64_t needed)
{
	size_t size = resume->size ? resume->size : RING_LEAST, part;
	char *ring;

	while (size < needed && size < RING_MOST)
		size *= 2;
	if (size == resume->size)
		return size >= needed;
	ring = malloc(size);
	if (!ring)
		return false;
	for (uint64_t number = resume->acknowledged; number < resume->sent; number += part) {
		const char *piece = ring_piece(resume, number, resume->sent, &part);

		ring_put(ring, size, number, piece, part);
	}
	free(resume->ring);
	resume->ring = ring;
	resume->size = size;
	return size >= needed;
}

/* The socket has been given all bytes up to this number. */
static void ask_acknowledged(struct rd_resume *resume, int fd, uint64_t given)
{
	int waiting;

	/* Bytes of the handshake may wait as well. */
	if (!resume->unconfirmed && ioctl(fd, SIOCOUTQ, &waiting) == 0 &&
		given > resume->acknowledged + (uint64_t)waiting)
		resume->acknowledged = given - (uint64_t)waiting;
}

/* The socket has taken the first `size` bytes. */
static void keep(struct rd_resume *resume, int fd, const struct iovec *iov, size_t size)
{
	uint64_t end = resume->sent + size, from = resume->sent;

	if (size >= ASK_MIN || end - resume->acknowledged > resume->size)
		ask_acknowledged(resume, fd, end);
	if (resume->acknowledged < end && !ring_grow(resume, end - resume->acknowledged))
		resume->unable = true;
	for (; from < end && !resume->unable; iov++) {
		size_t part = iov->iov_len < end - from ? iov->iov_len : (size_t)(end - from);
		size_t skip =
			resume->acknowledged > from ? (size_t)(resume->acknowledged - from) : 0;

		if (skip < part)
			ring_put(resume->ring, resume->size, from + skip,
				(const char *)iov->iov_base + skip, part - skip);
		from += part;
	}
	resume->sent = resume->given = end;
}

bool rd_resume_send_again(struct rd_resume *resume, int fd)
{
	while (resume->given < resume->sent && !resume->error) {
		size_t part;
		const char *piece = ring_piece(resume, resume->given, resume->sent, &part);
		ssize_t size = send(fd, piece, part, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (size < 0) {
			fail(resume);
			break;
		}
		resume->given += (uint64_t)size;
	}
	return resume->given == resume->sent;
}

ssize_t rd_resume_send(struct rd_resume *resume, int fd, const struct iovec *iov, size_t count)
{
	struct msghdr message = { .msg_iov = (struct iovec *)iov, .msg_iovlen = count };
	ssize_t size;

	if (resume->error)
		return has_failed();
	if (!rd_resume_send_again(resume, fd))
		return -1;
	size = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (size < 0)
		return fail(resume);
	keep(resume, fd, iov, (size_t)size);
	return size;
}

/* ---- Bytes that come ----------------------------------------------------------------------- */

/* As recvmsg() of bytes that earlier sockets had. Leaves the rest of the buffers in `rest`. */
static size_t take_early(struct rd_resume *resume, const struct iovec *iov, size_t count,
	struct iovec *rest, size_t *rest_count)
{
	size_t taken = 0;

	*rest_count = 0;
	for (size_t i = 0; i < count; i++) {
		size_t left = resume->early_size - resume->early_at;
		size_t part = iov[i].iov_len < left ? iov[i].iov_len : left;

		memcpy(iov[i].iov_base, resume->early + resume->early_at, part);
		resume->early_at += part;
		taken += part;
		if (part < iov[i].iov_len)
			rest[(*rest_count)++] = (struct iovec){ (char *)iov[i].iov_base + part,
				iov[i].iov_len - part };
	}
	if (resume->early_at == resume->early_size) {
		free(resume->early);
		resume->early = NULL;
		resume->early_at = resume->early_size = 0;
	}
	return taken;
}

/* Takes the byte by which the peer confirms that it goes on: 1, or -1 with errno. An end before it
   is the socket's alone: the peer gave that up before it had the answer. */
static int take_confirmation(struct rd_resume *resume, int fd)
{
	char byte;
	ssize_t size = resume->unconfirmed ? recv(fd, &byte, 1, MSG_DONTWAIT) : 1;

	if (size == 0)
		errno = ECONNRESET;
	if (size <= 0)
		return (int)fail(resume);
	resume->unconfirmed = false;
	return 1;
}

static ssize_t receive(struct rd_resume *resume, int fd, const struct iovec *iov, size_t count)
{
	struct msghdr message = { .msg_iov = (struct iovec *)iov, .msg_iovlen = count };
	ssize_t size;

	if (resume->error)
		return has_failed();
	if (take_confirmation(resume, fd) < 0)
		return -1;
	size = recvmsg(fd, &message, MSG_DONTWAIT);
	if (size < 0)
		return fail(resume);
	resume->received += (uint64_t)size;
	return size;
}

ssize_t rd_resume_recv(struct rd_resume *resume, int fd, const struct iovec *iov, size_t count)
{
	struct iovec rest[2];
	size_t rest_count, taken;
	ssize_t size;

	if (!resume->early)
		return receive(resume, fd, iov, count);
	if (count > 2)
		count = 2;
	taken = take_early(resume, iov, count, rest, &rest_count);
	size = rest_count > 0 ? receive(resume, fd, rest, rest_count) : 0;
	return size > 0 ? (ssize_t)taken + size : (ssize_t)taken;
}

ssize_t rd_resume_peek(struct rd_resume *resume, int fd)
{
	char byte;
	ssize_t size;

	if (resume->early)
		return 1;
	if (resume->error)
		return has_failed();
	if (take_confirmation(resume, fd) < 0)
		return -1;
	size = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return size < 0 ? fail(resume) : size;
}

/* ---- From one socket to the next ----------------------------------------------------------- */

/* Room for `size` bytes more behind those that are early. */
static char *early_room(struct rd_resume *resume, size_t size)
{
	char *early = realloc(resume->early, resume->early_size + size);

	if (!early)
		return NULL;
	resume->early = early;
	return early + resume->early_size;
}

/* An allocation without bytes would stand for some. */
static void early_settle(struct rd_resume *resume)
{
	if (resume->early_size > 0)
		return;
	free(resume->early);
	resume->early = NULL;
}

bool rd_resume_leave(struct rd_resume *resume, int fd)
{
	bool confirmed = take_confirmation(resume, fd) > 0, has_room = true;

	/* The kernel returns bytes before it returns the error of a reset. Where none was the
	   confirmation, a later one may be. */
	while (confirmed) {
		char *room = early_room(resume, EARLY_STEP);
		ssize_t size = room ? recv(fd, room, EARLY_STEP, MSG_DONTWAIT) : 0;

		has_room = room != NULL;
		if (size <= 0)
			break;
		resume->early_size += (size_t)size;
		resume->received += (uint64_t)size;
	}
	early_settle(resume);
	if (!resume->error)
		resume->error = ECONNRESET;
	return has_room && !resume->unable;
}

int rd_resume_go_on(struct rd_resume *resume, int fd, enum rd_resume_side side,
	uint64_t peer_received, const void *bytes, size_t size)
{
	char *room, confirmation = 0;

	if (peer_received < resume->acknowledged || peer_received > resume->sent ||
		(side == RD_RESUME_ANSWERED && size > 0))
		return EPROTO;
	room = size > 0 ? early_room(resume, size) : NULL;
	if (size > 0 && !room)
		return ENOMEM;
	if (size > 0)
		memcpy(room, bytes, size);
	resume->early_size += size;
	resume->received += size;
	resume->acknowledged = resume->given = peer_received;
	resume->error = 0;
	resume->unconfirmed = side == RD_RESUME_ANSWERED;
	/* Without it the peer would take another byte for it. */
	if (side == RD_RESUME_ASKED && send(fd, &confirmation, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		resume->error = ECONNRESET;
	return 0;
}
