/*
 * A link of verbs: a queue pair on each rail, two rings of messages, and what both ends have done.
 * verbs.c describes the protocol. One thread at a time uses it.
 */
#ifndef RD_VERBS_LINK_H
#define RD_VERBS_LINK_H

#include "rondo/transport.h"
#include "transports/event_source.h"
#include "transports/tcp/connection.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/ring.h"

struct rd_verbs_endpoint;

/* First message on the socket, in both directions. On the wire: little endian, without gaps. */
struct rd_verbs_hello {
	uint32_t magic;
	uint16_t version;
	uint16_t rails;
	uint32_t slots;
	uint32_t message_max;
	struct rd_verbs_address at[RD_VERBS_RAILS_MAX];
};

/* Second message: the queue pairs are connected. */
struct rd_verbs_ready {
	uint32_t magic;
	uint32_t rails; /* bits, by rail */
};

/* A message that the peer has not released: it may have to be sent again. */
struct rd_verbs_sent {
	struct rd_verbs_cursor at; /* its slot: the header, and the payload if `from` is NULL */
	const void *from; /* the payload, in the caller's memory */
	uint32_t size; /* of the payload, in bytes; the peer can overwrite the one in the header */
	uint32_t keys[RD_VERBS_RAILS_MAX]; /* local keys of that memory */
	uint64_t mark; /* base.posted with that message */
};

/* Messages to the peer. Numbers count from 0. */
struct rd_verbs_output {
	char *ring; /* ours */
	uint64_t count; /* messages sent */
	uint64_t released; /* of them, by the peer */
	struct rd_verbs_cursor next;
	struct rd_verbs_sent sent[RD_VERBS_MESSAGES]; /* from `released` on, by number */
	/* base.posted of the last message from the caller's memory, which is in use until base.sent
	   reaches it. */
	uint64_t owed;
	struct rd_verbs_landing landing; /* the latest that the peer has announced */
	int landing_rail; /* that brought it */
};

/* Messages from the peer. */
struct rd_verbs_input {
	char *ring; /* in which the peer writes */
	uint64_t arrived; /* messages */
	uint64_t released; /* by the caller */
	uint64_t checked; /* of them, those that have the CRC of their sender */
	uint64_t returned; /* of them, those of which the peer has been sent the credit */
	struct rd_verbs_cursor next; /* the message after those released */
	size_t size; /* of that message, once it has been returned to the caller; bytes */
	void *landing; /* announced to the peer for message `landing_number`; NULL: none */
	size_t landing_size;
	uint64_t landing_number;
	uint64_t returned_position; /* of the first message whose credit is kept */
};

struct rd_verbs_link {
	struct rd_link base;
	struct rd_verbs_endpoint *endpoint;
	struct rd_verbs_link *next;

	/* Messages go over pairs[base.rail]; the others are in reserve. */
	int rails; /* number of queue pairs */
	struct rd_verbs_ring size; /* of both rings */
	struct rd_verbs_output out;
	struct rd_verbs_input in;
	struct rd_verbs_queue_pair *pairs; /* [rails] */
	struct rd_verbs_address *peers; /* [rails] */
	struct ibv_mr **regions; /* [rails]: both rings */
	void *memory; /* both rings */
	size_t memory_size;

	/* The handshake, and the end */
	struct rd_tcp_connection connection;
	struct rd_event_source source;
	struct rd_wire wire; /* of the handshake; then its end is the peer's */
	struct rd_verbs_hello hello; /* the peer's */
	struct rd_verbs_ready ready; /* the peer's */
	size_t read; /* bytes of both */
	uint32_t connected; /* rails whose queue pairs are and work, as bits */

	/* Failover (failover.h) */
	bool paused; /* messages wait until both sides have resumed */
	bool resumed, peer_resumed; /* on the present rail, since the last failure */
	uint32_t peer_resume; /* the peer's resume */
	uint32_t draining; /* rails that may still have received messages, as bits */

	bool hung_up; /* the peer has closed, or died; its messages may remain to be read */
};

/* Maximum bytes per message. */
size_t rd_verbs_message_max(const struct rd_settings *settings);

/* Makes a link with its queue pairs and memory, which its endpoint owns. NULL: an error, with a
   reason. */
struct rd_verbs_link *rd_verbs_link_create(
	struct rd_verbs_endpoint *endpoint, int peer, int channel, int *err);
void rd_verbs_link_destroy(struct rd_verbs_link *link);
/* In a forked child, in place of destroy(): closes the socket, and frees the memory. */
void rd_verbs_link_abandon(struct rd_verbs_link *link);

/* The link stays failed; the first reason counts. */
void rd_verbs_link_fail(struct rd_verbs_link *link, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
