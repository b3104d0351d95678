/*
 * One connected TCP socket and its messages: framing, queue, gathering and landing. tcp.c
 * describes the wire format.
 *
 * A stream reports to its link: it counts link->sent, and sets link->error and link->reason.
 *
 * Copies. A message of send() goes from the caller's memory to the kernel. One that recv() expects
 * goes from the kernel to `into`. The other two (commit, recv() without `into`) go through a buffer
 * here, in which the caller reads or writes in place.
 *
 * Checksums. With RONDO_CHECKSUM=1 a header is longer, by two CRCs. recv() checks that of the
 * payload before it returns the message: a wrong one fails the link.
 */
#ifndef RD_TCP_STREAM_H
#define RD_TCP_STREAM_H

#include "topo/place.h"
#include "rondo/transport.h"
#include "base/settings.h"
#include "net/wire.h"

/* Maximum of messages that wait for the socket; of committed ones among them. */
#define RD_TCP_STREAM_QUEUE 16
#define RD_TCP_STREAM_STAGES 4
/* Messages that leave by one write, where link->more announces each next one. A write ends in a
   segment that is not full, and that costs as much as a full one. */
#define RD_TCP_STREAM_ROW 8

struct rd_tcp_stream_header {
	uint32_t size; /* of the payload, bytes */
	uint32_t check; /* a constant plus the message's number on this stream, modulo 2^16 */
	struct rd_tag tag;
	/* With checksums alone: */
	uint32_t payload_crc;
	uint32_t crc; /* of all before, in this header */
};

struct rd_tcp_stream_output {
	struct rd_tcp_stream_header header;
	const char *bytes; /* staged: the header precedes the payload there */
	size_t size;
	bool staged;
};

struct rd_tcp_stream {
	struct rd_wire wire;
	struct rd_link *link;
	int rank; /* this one */
	bool checksums;
	size_t header_size; /* bytes on the wire */

	/* Going out: queue[first], queue[first + 1], ... */
	struct rd_tcp_stream_output queue[RD_TCP_STREAM_QUEUE];
	unsigned first, queued;
	unsigned row; /* messages queued since the last write */
	size_t written; /* bytes of queue[first] that the kernel has */
	char *stages;
	unsigned stage, staged; /* the next stage; stages in use, all before it */
	bool reserved; /* reserve() has returned the next stage */
	int write_error; /* errno of the write that failed; 0: none has */
	uint64_t out_count; /* messages sent */

	/* Coming in: bytes start to end of `in` have been read and not yet returned. */
	char *in;
	size_t start, end;
	bool has_header; /* header is that of the present message */
	struct rd_tcp_stream_header header;
	char *landing; /* address of its payload; NULL: in `in` */
	size_t landed; /* bytes of it at `landing` */
	size_t summed; /* of those, in `crc` */
	uint32_t crc; /* with checksums */
	bool returned; /* by recv(), and not yet released */
	/* recv() has given an address for the next message, and is called until it has arrived */
	bool claimed;
	bool armed; /* the rank may sleep: the next message is to wake it when it is whole */
	size_t expected; /* bytes of the next message, as far as recv() knows; 0: it does not */
	size_t wake_at; /* unread bytes from which the socket reports them (SO_RCVLOWAT) */
	uint64_t in_count; /* messages whose header has been taken */
};

/* Takes over the wire on success alone; finish() closes it. A finished or zeroed stream whose wire
   has no descriptor may be finished (again). */
int rd_tcp_stream_init(struct rd_tcp_stream *stream, const struct rd_wire *wire,
	struct rd_link *link, const struct rd_local *local);
void rd_tcp_stream_finish(struct rd_tcp_stream *stream);

/* As the functions of struct rd_link_ops. */
void *rd_tcp_stream_reserve(struct rd_tcp_stream *stream, size_t size);
void rd_tcp_stream_commit(struct rd_tcp_stream *stream, const struct rd_tag *tag, size_t size);
bool rd_tcp_stream_send(
	struct rd_tcp_stream *stream, const struct rd_tag *tag, const void *from, size_t size);
bool rd_tcp_stream_recv(
	struct rd_tcp_stream *stream, void *into, size_t size, struct rd_message *message);
void rd_tcp_stream_release(struct rd_tcp_stream *stream);

/* Writes the queue, as far as the socket takes it. True: bytes were written. */
bool rd_tcp_stream_flush(struct rd_tcp_stream *stream);

/*
 * Reads the available bytes of the next message into the buffer here, unless recv() has given an
 * address for it. So a peer's message leaves its memory without a recv() here. True: bytes
 * arrived. False: the driver's epoll reports later bytes.
 */
bool rd_tcp_stream_read_ahead(struct rd_tcp_stream *stream);

/*
 * Between the two, the socket reports only what completes the next message, or a good part of it: a
 * wake-up for each segment would cost more than the segment. arm() follows the last read.
 */
void rd_tcp_stream_arm(struct rd_tcp_stream *stream);
void rd_tcp_stream_disarm(struct rd_tcp_stream *stream);

/* To be called when the peer has closed: sets link->error once nothing is left to receive. */
void rd_tcp_stream_check(struct rd_tcp_stream *stream);

/* Reads and drops received bytes, so that closing does not reset the connection. False: the peer
   has closed, or the link has failed. */
bool rd_tcp_stream_drain(struct rd_tcp_stream *stream);

#endif
