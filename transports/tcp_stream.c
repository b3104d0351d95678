#include "transports/tcp_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"

#define CHECK 0x6f640000u
#define HEADER_SIZE sizeof(struct rd_tcp_stream_header)
#define LINE 64

/* Bytes to read past the message now coming: enough to take many small messages in one call, few
   enough that moving them costs nothing beside a large one. */
#define AHEAD 4096

_Static_assert(HEADER_SIZE == 32, "the header travels as it lies in memory");
_Static_assert(HEADER_SIZE % 8 == 0, "a payload is as aligned as its header");

static size_t stage_size(const struct rd_tcp_stream *wire)
{
	return (HEADER_SIZE + wire->link->message_max + LINE - 1) / LINE * LINE;
}

static size_t in_size(const struct rd_tcp_stream *wire)
{
	return stage_size(wire) + AHEAD;
}

int rd_tcp_stream_init(struct rd_tcp_stream *wire, int fd, struct rd_link *link)
{
	*wire = (struct rd_tcp_stream){ .fd = -1, .link = link };
	/* Pages that no message needed are never touched, and cost nothing. */
	wire->stages = aligned_alloc(LINE, RD_WIRE_STAGES * stage_size(wire));
	wire->in = aligned_alloc(LINE, in_size(wire));
	if (!wire->stages || !wire->in) {
		rd_tcp_stream_finish(wire);
		return rd_fail(RONDO_MEMORY, "no memory for the buffers of a tcp link");
	}
	wire->fd = fd;
	return 0;
}

void rd_tcp_stream_finish(struct rd_tcp_stream *wire)
{
	if (wire->fd >= 0)
		close(wire->fd);
	wire->fd = -1;
	free(wire->stages);
	free(wire->in);
	wire->stages = wire->in = NULL;
}

static void fail(struct rd_tcp_stream *wire, int error, const char *reason)
{
	wire->link->error = error;
	snprintf(wire->link->reason, sizeof(wire->link->reason), "%s", reason);
	/* Ends the connection for the peer; the descriptor goes when the link does. */
	shutdown(wire->fd, SHUT_RDWR);
}

static void fail_broken(struct rd_tcp_stream *wire, int number)
{
	char reason[sizeof(wire->link->reason)];

	if (number == ECONNRESET)
		snprintf(reason, sizeof(reason), "reset the connection");
	else
		snprintf(reason, sizeof(reason), "lost its connection (%s)", strerror(number));
	fail(wire, RONDO_BROKEN, reason);
}

static void fail_deaf(struct rd_tcp_stream *wire)
{
	if (wire->deaf == EPIPE)
		fail(wire, RONDO_BROKEN, "closed its connection");
	else
		fail_broken(wire, wire->deaf);
}

static void fail_closed(struct rd_tcp_stream *wire)
{
	bool amid = wire->begun || wire->end > wire->start;

	fail(wire, RONDO_BROKEN,
		amid ? "closed its connection in the middle of a message"
		     : "closed its connection");
}

/* ---- Going out ---------------------------------------------------------------------------- */

static char *stage_at(struct rd_tcp_stream *wire, unsigned stage)
{
	return wire->stages + stage * stage_size(wire);
}

/* A deaf peer never makes room again: who wants to send more must know, even if that costs what the
   peer had sent before. */
static bool may_send(struct rd_tcp_stream *wire)
{
	if (wire->deaf) {
		fail_deaf(wire);
		return false;
	}
	return wire->queued < RD_WIRE_QUEUE;
}

void *rd_tcp_stream_reserve(struct rd_tcp_stream *wire, size_t size)
{
	/* Each stage has room for the largest. */
	assert(size <= wire->link->message_max);
	(void)size;
	if (!may_send(wire) || wire->staged == RD_WIRE_STAGES)
		return NULL;
	/* While the socket keeps up, the same stage serves each time: it stays in cache. */
	if (wire->staged == 0 && !wire->reserved)
		wire->stage = 0;
	wire->reserved = true;
	return stage_at(wire, wire->stage) + HEADER_SIZE;
}

static void drop_output(struct rd_tcp_stream *wire)
{
	wire->queued = wire->staged = 0;
	wire->link->unsent = false;
	wire->written = 0;
	wire->link->sent = wire->link->posted;
}

/* The entry for one more message, its header filled in. */
static struct rd_tcp_stream_output *append(
	struct rd_tcp_stream *wire, const struct rd_tag *tag, size_t size)
{
	struct rd_tcp_stream_output *output =
		&wire->queue[(wire->first + wire->queued++) % RD_WIRE_QUEUE];

	output->header = (struct rd_tcp_stream_header){
		.size = (uint32_t)size,
		.check = CHECK + wire->out_count++,
		.tag = *tag,
	};
	wire->link->unsent = true;
	return output;
}

void rd_tcp_stream_commit(struct rd_tcp_stream *wire, const struct rd_tag *tag, size_t size)
{
	struct rd_tcp_stream_output *output;
	char *stage = stage_at(wire, wire->stage);

	assert(wire->reserved && size <= wire->link->message_max);
	wire->reserved = false;
	if (wire->deaf || wire->link->error)
		return;
	output = append(wire, tag, size);
	memcpy(stage, &output->header, HEADER_SIZE);
	output->bytes = stage;
	output->size = HEADER_SIZE + size;
	output->staged = true;
	wire->staged++;
	wire->stage = (wire->stage + 1) % RD_WIRE_STAGES;
	if (wire->queued == 1)
		rd_tcp_stream_flush(wire);
}

bool rd_tcp_stream_send(
	struct rd_tcp_stream *wire, const struct rd_tag *tag, const void *from, size_t size)
{
	struct rd_tcp_stream_output *output;

	assert(size <= wire->link->message_max);
	if (!may_send(wire))
		return false;
	wire->link->posted++;
	output = append(wire, tag, size);
	output->bytes = from;
	output->size = size;
	output->staged = false;
	if (wire->queued == 1)
		rd_tcp_stream_flush(wire);
	return true;
}

/* Fills iov with what is queued and not yet written; returns the number of entries. */
static size_t gather(struct rd_tcp_stream *wire, struct iovec iov[2 * RD_WIRE_QUEUE], size_t *total)
{
	size_t skip = wire->written, count = 0;

	*total = 0;
	for (unsigned i = 0; i < wire->queued; i++) {
		struct rd_tcp_stream_output *output =
			&wire->queue[(wire->first + i) % RD_WIRE_QUEUE];
		struct iovec parts[2] = {
			{ &output->header, output->staged ? 0 : HEADER_SIZE },
			{ (char *)output->bytes, output->size },
		};

		for (int part = 0; part < 2; part++) {
			size_t skipped = skip < parts[part].iov_len ? skip : parts[part].iov_len;

			skip -= skipped;
			if (skipped == parts[part].iov_len)
				continue;
			iov[count].iov_base = (char *)parts[part].iov_base + skipped;
			iov[count].iov_len = parts[part].iov_len - skipped;
			*total += iov[count++].iov_len;
		}
	}
	return count;
}

/* The kernel has taken `size` more bytes of the queue. */
static void take(struct rd_tcp_stream *wire, size_t size)
{
	wire->written += size;
	while (wire->queued > 0) {
		struct rd_tcp_stream_output *output = &wire->queue[wire->first];
		size_t whole = output->size + (output->staged ? 0 : HEADER_SIZE);

		if (wire->written < whole)
			break;
		wire->written -= whole;
		wire->first = (wire->first + 1) % RD_WIRE_QUEUE;
		wire->queued--;
		if (output->staged)
			wire->staged--;
		else
			wire->link->sent++;
	}
	wire->link->unsent = wire->queued > 0;
}

/* Messages that the peer sent before can still be received: this alone is no failure. */
static void go_deaf(struct rd_tcp_stream *wire, int number)
{
	wire->deaf = number;
	drop_output(wire);
	rd_tcp_stream_check(wire);
	/* The socket returns its error only once, and send() has just taken it. */
	if (wire->link->error)
		fail_deaf(wire);
}

bool rd_tcp_stream_flush(struct rd_tcp_stream *wire)
{
	struct iovec iov[2 * RD_WIRE_QUEUE];
	struct msghdr message = { .msg_iov = iov };
	bool moved = false;
	size_t total;
	ssize_t size;

	while (wire->queued > 0 && !wire->link->error) {
		message.msg_iovlen = gather(wire, iov, &total);
		if (message.msg_iovlen == 1)
			size = send(wire->fd, iov[0].iov_base, total, MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			size = sendmsg(wire->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (size < 0) {
			if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
				go_deaf(wire, errno);
			break;
		}
		take(wire, (size_t)size);
		moved = true;
		/* A short write means a full socket; another would only return EAGAIN. */
		if ((size_t)size < total)
			break;
	}
	return moved;
}

/* ---- Coming in ---------------------------------------------------------------------------- */

/* Moves the bytes not yet shown to the front. They are few: reads stop AHEAD past a message. */
static void rewind_in(struct rd_tcp_stream *wire)
{
	memmove(wire->in, wire->in + wire->start, wire->end - wire->start);
	wire->end -= wire->start;
	wire->start = 0;
}

/* Takes the header from `in`, where it lies whole. */
static bool begin(struct rd_tcp_stream *wire)
{
	memcpy(&wire->header, wire->in + wire->start, HEADER_SIZE);
	if (wire->header.check != CHECK + wire->in_count ||
		wire->header.size > wire->link->message_max) {
		fail(wire, RONDO_PROTOCOL, "sent bytes that are no message");
		return false;
	}
	wire->in_count++;
	wire->start += HEADER_SIZE;
	wire->begun = true;
	wire->landing = NULL;
	wire->landed = 0;
	return true;
}

/* Decides where the payload goes, and brings there what has been read of it. */
static void place(struct rd_tcp_stream *wire, void *into, size_t size)
{
	size_t ahead = wire->end - wire->start;

	if (into && size == wire->header.size) {
		wire->landing = into;
		wire->landed = ahead < size ? ahead : size;
		memcpy(into, wire->in + wire->start, wire->landed);
		wire->start += wire->landed;
	} else if (wire->start % 8 || wire->start + wire->header.size + AHEAD > in_size(wire)) {
		rewind_in(wire);
	}
}

static bool is_whole(const struct rd_tcp_stream *wire)
{
	if (!wire->begun)
		return false;
	if (wire->landing)
		return wire->landed == wire->header.size;
	return wire->end - wire->start >= wire->header.size;
}

/* One read. Returns the bytes read; 0: none there, or the link has failed. */
static size_t read_some(struct rd_tcp_stream *wire, struct iovec *iov, size_t count)
{
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = count };
	ssize_t size;

	/* recv() is a few percent of a small message's time quicker. */
	if (count == 1)
		size = recv(wire->fd, iov[0].iov_base, iov[0].iov_len, MSG_DONTWAIT);
	else
		size = recvmsg(wire->fd, &message, MSG_DONTWAIT);
	if (size > 0)
		return (size_t)size;
	if (size == 0)
		fail_closed(wire);
	else if (errno != EAGAIN && errno != EINTR)
		fail_broken(wire, errno);
	return 0;
}

/*
 * Reads a header, and what follows it straight into the place where the caller expects the payload:
 * one system call and no copy when it is the message expected. When it is another one (which the
 * layer above will find out), its bytes are brought back to `in`, as if they had been read there.
 */
static bool read_expected(struct rd_tcp_stream *wire, void *into, size_t size, bool *dry)
{
	struct iovec iov[2] = { { wire->in, HEADER_SIZE }, { into, size } };
	size_t got = read_some(wire, iov, 2);

	*dry = got < HEADER_SIZE + size;
	wire->start = 0;
	wire->end = got < HEADER_SIZE ? got : HEADER_SIZE;
	if (got <= HEADER_SIZE)
		return got > 0;
	got -= HEADER_SIZE;
	if (!begin(wire))
		return false;
	if (wire->header.size == size) {
		wire->landing = into;
		wire->landed = got;
		return true;
	}
	memcpy(wire->in + wire->end, into, got);
	wire->end += got;
	place(wire, NULL, 0);
	return true;
}

/* Reads more of the message now coming, or of the next. *dry: there is no more for now. */
static bool read_more(struct rd_tcp_stream *wire, void *into, size_t size, bool *dry)
{
	struct iovec iov;
	size_t wanted = HEADER_SIZE, got;

	if (wire->begun && wire->landing) {
		iov.iov_base = wire->landing + wire->landed;
		iov.iov_len = wire->header.size - wire->landed;
		got = read_some(wire, &iov, 1);
		wire->landed += got;
		*dry = got < iov.iov_len;
		return got > 0;
	}
	if (!wire->begun) {
		rewind_in(wire);
		if (wire->end == 0 && into && size > AHEAD && size <= wire->link->message_max)
			return read_expected(wire, into, size, dry);
	}
	/* An expected message is read in one call, with its header. One that may land is read no
	   further than its header. */
	if (wire->begun)
		wanted = wire->header.size;
	else if (!into && size <= wire->link->message_max)
		wanted += size;
	iov.iov_base = wire->in + wire->end;
	iov.iov_len = wanted + AHEAD - (wire->end - wire->start);
	got = read_some(wire, &iov, 1);
	wire->end += got;
	*dry = got < iov.iov_len;
	return got > 0;
}

/* Reads until a message is whole or the socket is empty: the edge-triggered epoll of the driver
   speaks up again only for bytes that come after that. */
static bool arrive(struct rd_tcp_stream *wire, void *into, size_t size)
{
	bool dry = false;

	/* What was taken in before anyone asked: the rest may land. */
	if (wire->begun && !wire->landing && into && size == wire->header.size && !is_whole(wire))
		place(wire, into, size);
	for (;;) {
		if (!wire->begun && wire->end - wire->start >= HEADER_SIZE) {
			if (!begin(wire))
				return false;
			place(wire, into, size);
		}
		if (is_whole(wire))
			return true;
		if (dry || !read_more(wire, into, size, &dry))
			return false;
	}
}

bool rd_tcp_stream_recv(
	struct rd_tcp_stream *wire, void *into, size_t size, struct rd_message *message)
{
	if (!wire->shown && !arrive(wire, into, size)) {
		wire->claimed = into != NULL;
		return false;
	}
	wire->shown = true;
	message->data = wire->landing ? wire->landing : wire->in + wire->start;
	message->size = wire->header.size;
	message->tag = &wire->header.tag;
	return true;
}

void rd_tcp_stream_release(struct rd_tcp_stream *wire)
{
	assert(wire->shown);
	if (!wire->landing)
		wire->start += wire->header.size;
	wire->shown = wire->begun = wire->claimed = false;
	wire->landing = NULL;
}

/* Bytes read and not yet shown, while none of them has landed elsewhere. */
static size_t held(const struct rd_tcp_stream *wire)
{
	return (wire->begun ? HEADER_SIZE : 0) + wire->end - wire->start;
}

bool rd_tcp_stream_take_in(struct rd_tcp_stream *wire)
{
	size_t before = held(wire);

	if (wire->link->error || wire->claimed || is_whole(wire))
		return false;
	arrive(wire, NULL, 0);
	return wire->link->error || held(wire) > before;
}

void rd_tcp_stream_check(struct rd_tcp_stream *wire)
{
	char byte;
	ssize_t size;

	if (wire->link->error || wire->shown || is_whole(wire) ||
		(!wire->begun && wire->end - wire->start >= HEADER_SIZE))
		return;
	size = recv(wire->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (size == 0)
		fail_closed(wire);
	else if (size < 0 && errno != EAGAIN && errno != EINTR)
		fail_broken(wire, errno);
}

bool rd_tcp_stream_drain(struct rd_tcp_stream *wire)
{
	char bytes[16384];
	ssize_t size;

	if (wire->link->error || wire->deaf)
		return false;
	do
		size = recv(wire->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	while (size == sizeof(bytes));
	return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}
