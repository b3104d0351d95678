#include "transports/tcp/stream_failure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "transports/tcp/interface.h"

void rd_tcp_stream_fail(struct rd_tcp_stream *stream, int error, const char *reason)
{
	struct rd_link *link = stream->link;

	link->error = error;
	snprintf(link->reason, sizeof(link->reason), "%.*s", (int)sizeof(link->reason) - 1, reason);
	/* Ends the connection for the peer. finish() closes the descriptor. */
	shutdown(stream->wire.fd, SHUT_RDWR);
}

void rd_tcp_stream_fail_by_errno(struct rd_tcp_stream *stream, int number)
{
	char reason[sizeof(stream->link->reason)];

	if (number == ECONNRESET)
		snprintf(reason, sizeof(reason), "reset the connection");
	else
		snprintf(reason, sizeof(reason), "lost its connection (%s)", strerror(number));
	rd_tcp_stream_fail(stream, RONDO_BROKEN, reason);
}

void rd_tcp_stream_fail_by_write_error(struct rd_tcp_stream *stream)
{
	if (stream->write_error == EPIPE)
		rd_tcp_stream_fail(stream, RONDO_BROKEN, "closed its connection");
	else
		rd_tcp_stream_fail_by_errno(stream, stream->write_error);
}

void rd_tcp_stream_fail_by_end(struct rd_tcp_stream *stream)
{
	bool in_message = stream->has_header || stream->end > stream->start;

	rd_tcp_stream_fail(stream, RONDO_BROKEN,
		in_message ? "closed its connection in the middle of a message"
			   : "closed its connection");
}

/* "ADDRESS to ADDRESS", of the peer and of this rank. */
static void path_text(const struct rd_tcp_stream *stream, char *text, size_t size)
{
	struct sockaddr_storage ours = { 0 }, theirs = { 0 };
	socklen_t ours_size = sizeof(ours), theirs_size = sizeof(theirs);
	char from[RD_ADDRESS_SIZE], to[RD_ADDRESS_SIZE];

	getsockname(stream->wire.fd, (struct sockaddr *)&ours, &ours_size);
	getpeername(stream->wire.fd, (struct sockaddr *)&theirs, &theirs_size);
	snprintf(text, size, "%s to %s", rd_address_print(from, &theirs),
		rd_address_print(to, &ours));
}

void rd_tcp_stream_fail_by_checksum(
	struct rd_tcp_stream *stream, const char *part, uint32_t crc, uint32_t sent)
{
	char reason[320],
		path[2 * RD_ADDRESS_SIZE + 4]; /* the link keeps as much as it has room for */

	path_text(stream, path, sizeof(path));
	snprintf(reason, sizeof(reason),
		"sent rank %d %s %llu with CRC %08x, which arrived with %08x (tcp channel %d, %s)",
		stream->rank, part, (unsigned long long)(stream->in_count - 1), sent, crc,
		stream->link->channel, path);
	rd_tcp_stream_fail(stream, RONDO_PROTOCOL, reason);
}
