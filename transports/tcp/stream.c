#include "transports/tcp/stream.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/error.h"
#include "transports/tcp/stream_failure.h"

#define CHECK 0x6f640000u
#define HEADER_MOST sizeof(struct rd_tcp_stream_header)
#define HEADER_LEAST offsetof(struct rd_tcp_stream_header, payload_crc)
#define LINE 64

/* Bytes to read past the present message: many small messages, but few bytes to move beside a large
   one. */
#define AHEAD 4096

/* A sleeping rank is woken by as many bytes of a message, if it is that large: reads then run
   beside the arrival of the rest. Smaller messages wake it by their first byte. */
#define WAKE_MOST ((size_t)256 << 10)
#define WAKE_LEAST ((size_t)16 << 10)

_Static_assert(HEADER_MOST == 40 && HEADER_LEAST == 32, "headers travel as they lie in memory");
_Static_assert(HEADER_MOST % 8 == 0 && HEADER_LEAST % 8 == 0, "a payload is as aligned");

static size_t stage_size(const struct rd_tcp_stream *stream)
{
	return (HEADER_MOST + stream->link->message_max + LINE - 1) / LINE * LINE;
}

static size_t in_size(const struct rd_tcp_stream *stream)
{
	return stage_size(stream) + AHEAD;
}

int rd_tcp_stream_init(struct rd_tcp_stream *stream, const struct rd_wire *wire,
	struct rd_link *link, const struct rd_local *local)
{
	*stream = (struct rd_tcp_stream){
		.wire = RD_WIRE(-1),
		.link = link,
		.rank = local->rank,
		.checksums = local->settings->checksum,
		.header_size = local->settings->checksum ? HEADER_MOST : HEADER_LEAST,
		.wake_at = 1,
	};
	/* Pages that no message touches use no memory. */
	stream->stages = aligned_alloc(LINE, RD_TCP_STREAM_STAGES * stage_size(stream));
	stream->in = aligned_alloc(LINE, in_size(stream));
	if (!stream->stages || !stream->in) {
		rd_tcp_stream_finish(stream);
		return rd_fail(RONDO_MEMORY, "no memory for the buffers of a tcp link");
	}
	stream->wire = *wire;
	return 0;
}

void rd_tcp_stream_finish(struct rd_tcp_stream *stream)
{
	rd_wire_close(&stream->wire);
	free(stream->stages);
	free(stream->in);
	stream->stages = stream->in = NULL;
}

/* ---- Going out ---------------------------------------------------------------------------- */

static char *stage_at(struct rd_tcp_stream *stream, unsigned stage)
{
	return stream->stages + stage * stage_size(stream);
}

/* A peer that closed its end never takes more. The link of a rank that sends must fail, even if
   messages from that peer are lost by it. */
static bool may_send(struct rd_tcp_stream *stream)
{
	if (stream->write_error) {
		rd_tcp_stream_fail_by_write_error(stream);
		return false;
	}
	return stream->queued < RD_TCP_STREAM_QUEUE;
}

void *rd_tcp_stream_reserve(struct rd_tcp_stream *stream, size_t size)
{
	/* Each stage has room for the largest message. */
	assert(size <= stream->link->message_max);
	(void)size;
	if (!may_send(stream) || stream->staged == RD_TCP_STREAM_STAGES)
		return NULL;
	/* If nothing is queued, the first stage serves again: it is in cache. */
	if (stream->staged == 0 && !stream->reserved)
		stream->stage = 0;
	stream->reserved = true;
	return stage_at(stream, stream->stage) + stream->header_size;
}

static uint32_t header_crc(const struct rd_tcp_stream_header *header)
{
	return rd_crc32c(0, header, offsetof(struct rd_tcp_stream_header, crc));
}

static void queue_drop(struct rd_tcp_stream *stream)
{
	stream->queued = stream->row = stream->staged = 0;
	stream->link->unsent = false;
	stream->written = 0;
	stream->link->sent = stream->link->posted;
}

/* Adds a message with this payload to the queue, and fills in its header. */
static struct rd_tcp_stream_output *queue_append(
	struct rd_tcp_stream *stream, const struct rd_tag *tag, const void *payload, size_t size)
{
	struct rd_tcp_stream_output *output =
		&stream->queue[(stream->first + stream->queued++) % RD_TCP_STREAM_QUEUE];

	output->header = (struct rd_tcp_stream_header){
		.size = (uint32_t)size,
		.check = CHECK + (uint16_t)stream->out_count++,
		.tag = *tag,
	};
	if (stream->checksums) {
		output->header.payload_crc = rd_crc32c(0, payload, size);
		output->header.crc = header_crc(&output->header);
	}
	stream->link->unsent = true;
	return output;
}

void rd_tcp_stream_commit(struct rd_tcp_stream *stream, const struct rd_tag *tag, size_t size)
{
	struct rd_tcp_stream_output *output;
	char *stage = stage_at(stream, stream->stage);

	assert(stream->reserved && size <= stream->link->message_max);
	stream->reserved = false;
	if (stream->write_error || stream->link->error)
		return;
	output = queue_append(stream, tag, stage + stream->header_size, size);
	memcpy(stage, &output->header, stream->header_size);
	output->bytes = stage;
	output->size = stream->header_size + size;
	output->staged = true;
	stream->staged++;
	stream->stage = (stream->stage + 1) % RD_TCP_STREAM_STAGES;
	if (stream->queued == 1)
		rd_tcp_stream_flush(stream);
}

bool rd_tcp_stream_send(
	struct rd_tcp_stream *stream, const struct rd_tag *tag, const void *from, size_t size)
{
	struct rd_tcp_stream_output *output;

	assert(size <= stream->link->message_max);
	if (!may_send(stream))
		return false;
	stream->link->posted++;
	output = queue_append(stream, tag, from, size);
	output->bytes = from;
	output->size = size;
	output->staged = false;
	stream->row++;
	if (stream->row == stream->queued &&
		(!stream->link->more || stream->row == RD_TCP_STREAM_ROW))
		rd_tcp_stream_flush(stream);
	return true;
}

/* Fills iov with the queued bytes that are not written yet; returns the number of entries. */
static size_t queue_gather(
	struct rd_tcp_stream *stream, struct iovec iov[2 * RD_TCP_STREAM_QUEUE], size_t *total)
{
	size_t skip = stream->written, count = 0;

	*total = 0;
	for (unsigned i = 0; i < stream->queued; i++) {
		struct rd_tcp_stream_output *output =
			&stream->queue[(stream->first + i) % RD_TCP_STREAM_QUEUE];
		struct iovec parts[2] = {
			{ &output->header, output->staged ? 0 : stream->header_size },
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
static void queue_consume(struct rd_tcp_stream *stream, size_t size)
{
	stream->written += size;
	while (stream->queued > 0) {
		struct rd_tcp_stream_output *output = &stream->queue[stream->first];
		size_t whole = output->size + (output->staged ? 0 : stream->header_size);

		if (stream->written < whole)
			break;
		stream->written -= whole;
		stream->first = (stream->first + 1) % RD_TCP_STREAM_QUEUE;
		stream->queued--;
		if (output->staged)
			stream->staged--;
		else
			stream->link->sent++;
	}
	stream->link->unsent = stream->queued > 0;
}

/* The link fails later: messages from the peer can still be received. */
static void write_failed(struct rd_tcp_stream *stream, int number)
{
	stream->write_error = number;
	queue_drop(stream);
	rd_tcp_stream_check(stream);
	/* The socket returns its error once: send() got it, and check() saw only an end. */
	if (stream->link->error)
		rd_tcp_stream_fail_by_write_error(stream);
}

bool rd_tcp_stream_flush(struct rd_tcp_stream *stream)
{
	struct iovec iov[2 * RD_TCP_STREAM_QUEUE];
	bool moved = false;
	size_t total, count;
	ssize_t size;

	stream->row = 0;
	while (stream->queued > 0 && !stream->link->error) {
		count = queue_gather(stream, iov, &total);
		size = rd_wire_send(&stream->wire, iov, count);
		if (size < 0) {
			if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
				write_failed(stream, errno);
			break;
		}
		queue_consume(stream, (size_t)size);
		moved = true;
		/* A short write means a full socket; another would only return EAGAIN. */
		if ((size_t)size < total)
			break;
	}
	return moved;
}

/* ---- Coming in ---------------------------------------------------------------------------- */

/* Moves unread bytes to the front. They are few: reads end AHEAD bytes past a message. */
static void move_to_front(struct rd_tcp_stream *stream)
{
	memmove(stream->in, stream->in + stream->start, stream->end - stream->start);
	stream->end -= stream->start;
	stream->start = 0;
}

/* Takes the next header from `in`, which holds all of it. False: it is invalid. */
static bool take_header(struct rd_tcp_stream *stream)
{
	const struct rd_tcp_stream_header *header = &stream->header;

	memcpy(&stream->header, stream->in + stream->start, stream->header_size);
	stream->in_count++;
	if (stream->checksums && header_crc(header) != header->crc) {
		rd_tcp_stream_fail_by_checksum(
			stream, "a header of message", header_crc(header), header->crc);
		return false;
	}
	if (header->check != CHECK + (uint16_t)(stream->in_count - 1) ||
		header->size > stream->link->message_max) {
		rd_tcp_stream_fail(stream, RONDO_PROTOCOL, "sent bytes that are no message");
		return false;
	}
	stream->start += stream->header_size;
	stream->has_header = true;
	stream->landing = NULL;
	stream->landed = stream->summed = 0;
	stream->crc = 0;
	return true;
}

/* Bytes that have landed are summed while the next are on their way, and while a cache has them. */
static void sum_landed(struct rd_tcp_stream *stream)
{
	if (!stream->checksums)
		return;
	stream->crc = rd_crc32c(
		stream->crc, stream->landing + stream->summed, stream->landed - stream->summed);
	stream->summed = stream->landed;
}

/* Chooses the payload's place, and moves the bytes that have been read there. */
static void place_payload(struct rd_tcp_stream *stream, void *into, size_t size)
{
	size_t ahead = stream->end - stream->start;

	if (into && size == stream->header.size) {
		stream->landing = into;
		stream->landed = ahead < size ? ahead : size;
		memcpy(into, stream->in + stream->start, stream->landed);
		stream->start += stream->landed;
		sum_landed(stream);
	} else if (stream->start % 8 ||
		   stream->start + stream->header.size + AHEAD > in_size(stream)) {
		move_to_front(stream);
	}
}

static bool is_whole(const struct rd_tcp_stream *stream)
{
	if (!stream->has_header)
		return false;
	if (stream->landing)
		return stream->landed == stream->header.size;
	return stream->end - stream->start >= stream->header.size;
}

/* One system call. Returns the bytes read; 0: there were none, or the link has failed. */
static size_t read_some(struct rd_tcp_stream *stream, struct iovec *iov, size_t count)
{
	ssize_t size = rd_wire_recv(&stream->wire, iov, count);

	if (size > 0)
		return (size_t)size;
	if (size == 0)
		rd_tcp_stream_fail_by_end(stream);
	else if (errno != EAGAIN && errno != EINTR)
		rd_tcp_stream_fail_by_errno(stream, errno);
	return 0;
}

/*
 * Reads a header, and the bytes behind it directly to `into`. For a message of the expected size
 * this is one system call and no copy. For any other, the bytes are copied back to `in`, as if read
 * there.
 */
static bool read_expected(struct rd_tcp_stream *stream, void *into, size_t size, bool *drained)
{
	struct iovec iov[2] = { { stream->in, stream->header_size }, { into, size } };
	size_t got = read_some(stream, iov, 2);

	*drained = got < stream->header_size + size;
	stream->start = 0;
	stream->end = got < stream->header_size ? got : stream->header_size;
	if (got <= stream->header_size)
		return got > 0;
	got -= stream->header_size;
	if (!take_header(stream))
		return false;
	if (stream->header.size == size) {
		stream->landing = into;
		stream->landed = got;
		sum_landed(stream);
		return true;
	}
	memcpy(stream->in + stream->end, into, got);
	stream->end += got;
	place_payload(stream, NULL, 0);
	return true;
}

/* Reads more of the present message, or of the next. *drained: the socket is empty. */
static bool read_more(struct rd_tcp_stream *stream, void *into, size_t size, bool *drained)
{
	struct iovec iov;
	size_t wanted = stream->header_size, got;

	if (stream->has_header && stream->landing) {
		iov.iov_base = stream->landing + stream->landed;
		iov.iov_len = stream->header.size - stream->landed;
		got = read_some(stream, &iov, 1);
		stream->landed += got;
		sum_landed(stream);
		*drained = got < iov.iov_len;
		return got > 0;
	}
	if (!stream->has_header) {
		move_to_front(stream);
		if (stream->end == 0 && into && size > AHEAD && size <= stream->link->message_max)
			return read_expected(stream, into, size, drained);
	}
	/* Without `into`, an expected message is read in one call with its header. With `into`, the
	   first read ends with the header, so that the payload can land. */
	if (stream->has_header)
		wanted = stream->header.size;
	else if (!into && size <= stream->link->message_max)
		wanted += size;
	iov.iov_base = stream->in + stream->end;
	iov.iov_len = wanted + AHEAD - (stream->end - stream->start);
	got = read_some(stream, &iov, 1);
	stream->end += got;
	*drained = got < iov.iov_len;
	return got > 0;
}

/* Reads until a message is whole or the socket is empty. Once it is empty, the driver's
   edge-triggered epoll reports later bytes. */
static bool read_available(struct rd_tcp_stream *stream, void *into, size_t size)
{
	bool drained = false;

	/* read_ahead() began this message: the rest of it may land. */
	if (stream->has_header && !stream->landing && into && size == stream->header.size &&
		!is_whole(stream))
		place_payload(stream, into, size);
	for (;;) {
		if (!stream->has_header && stream->end - stream->start >= stream->header_size) {
			if (!take_header(stream))
				return false;
			place_payload(stream, into, size);
		}
		if (is_whole(stream))
			return true;
		if (drained || !read_more(stream, into, size, &drained))
			return false;
	}
}

/* Bytes of the next message that are still unread, as far as their number is known. */
static size_t missing(const struct rd_tcp_stream *stream)
{
	size_t whole =
		stream->has_header ? stream->header.size : stream->header_size + stream->expected;
	size_t read = stream->landing ? stream->landed : stream->end - stream->start;

	return read < whole ? whole - read : 0;
}

/* The socket is empty, and this rank may sleep. The kernel looks at once whether enough bytes have
   arrived since. Without the setting, or with a wrong number of bytes, the rank wakes early or at
   the end of its sleep. */
static void set_wake(struct rd_tcp_stream *stream)
{
	size_t least = missing(stream);
	int value;

	/* TLS may have read a part of a record, which holds some of these bytes. */
	if (stream->wire.tls)
		least = least > RD_TLS_RECORD_SIZE ? least - RD_TLS_RECORD_SIZE : 0;
	if (least < WAKE_LEAST)
		least = 1;
	if (least > WAKE_MOST)
		least = WAKE_MOST;
	if (least == stream->wake_at)
		return;
	value = (int)least;
	if (setsockopt(stream->wire.fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof(value)) == 0)
		stream->wake_at = least;
}

void rd_tcp_stream_arm(struct rd_tcp_stream *stream)
{
	stream->armed = true;
	set_wake(stream);
}

void rd_tcp_stream_disarm(struct rd_tcp_stream *stream)
{
	stream->armed = false;
}

static const char *payload_of(const struct rd_tcp_stream *stream)
{
	return stream->landing ? stream->landing : stream->in + stream->start;
}

/* Whether the message, which is whole, has the checksum that its sender computed. */
static bool is_intact(struct rd_tcp_stream *stream)
{
	const struct rd_tcp_stream_header *header = &stream->header;
	uint32_t crc;

	if (!stream->checksums)
		return true;
	crc = stream->landing ? stream->crc : rd_crc32c(0, payload_of(stream), header->size);
	if (crc != header->payload_crc)
		rd_tcp_stream_fail_by_checksum(stream, "message", crc, header->payload_crc);
	return crc == header->payload_crc;
}

static bool read_message(struct rd_tcp_stream *stream, void *into, size_t size)
{
	bool whole = read_available(stream, into, size);

	if (!whole && stream->armed && !stream->link->error)
		set_wake(stream);
	return whole;
}

bool rd_tcp_stream_recv(
	struct rd_tcp_stream *stream, void *into, size_t size, struct rd_message *message)
{
	if (!stream->returned)
		stream->expected = size;
	if (!stream->returned && !read_message(stream, into, size)) {
		stream->claimed = into != NULL;
		return false;
	}
	if (!stream->returned && !is_intact(stream))
		return false;
	stream->returned = true;
	message->data = payload_of(stream);
	message->size = stream->header.size;
	message->tag = &stream->header.tag;
	return true;
}

void rd_tcp_stream_release(struct rd_tcp_stream *stream)
{
	assert(stream->returned);
	if (!stream->landing)
		stream->start += stream->header.size;
	stream->returned = stream->has_header = stream->claimed = false;
	stream->expected = 0;
	stream->landing = NULL;
}

/* Bytes in `in` that recv() has not returned, with the header of the present message. */
static size_t buffered(const struct rd_tcp_stream *stream)
{
	return (stream->has_header ? stream->header_size : 0) + stream->end - stream->start;
}

bool rd_tcp_stream_read_ahead(struct rd_tcp_stream *stream)
{
	size_t before = buffered(stream);

	if (stream->link->error || stream->claimed || is_whole(stream))
		return false;
	read_message(stream, NULL, 0);
	return stream->link->error || buffered(stream) > before;
}

void rd_tcp_stream_check(struct rd_tcp_stream *stream)
{
	ssize_t size;

	if (stream->link->error || stream->returned || is_whole(stream) ||
		(!stream->has_header && stream->end - stream->start >= stream->header_size))
		return;
	size = rd_wire_peek(&stream->wire);
	if (size == 0)
		rd_tcp_stream_fail_by_end(stream);
	else if (size < 0 && errno != EAGAIN && errno != EINTR)
		rd_tcp_stream_fail_by_errno(stream, errno);
}

bool rd_tcp_stream_drain(struct rd_tcp_stream *stream)
{
	char bytes[16384];
	ssize_t size;

	if (stream->link->error || stream->write_error)
		return false;
	do
		size = recv(stream->wire.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	while (size == sizeof(bytes));
	return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}
