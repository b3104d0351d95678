/* How a stream fails: the error and reason that its link then has. */
#ifndef RD_TCP_STREAM_FAILURE_H
#define RD_TCP_STREAM_FAILURE_H

#include "transports/tcp/stream.h"

/* Ends the connection for the peer as well. */
void rd_tcp_stream_fail(struct rd_tcp_stream *stream, int error, const char *reason);

/* number: errno of a read or a write. */
void rd_tcp_stream_fail_by_errno(struct rd_tcp_stream *stream, int number);
/* By stream->write_error. */
void rd_tcp_stream_fail_by_write_error(struct rd_tcp_stream *stream);
/* The peer has closed its connection. */
void rd_tcp_stream_fail_by_end(struct rd_tcp_stream *stream);

/* `part` of the present message has this CRC here, and that of `sent` where it was sent. */
void rd_tcp_stream_fail_by_checksum(
	struct rd_tcp_stream *stream, const char *part, uint32_t crc, uint32_t sent);

#endif
