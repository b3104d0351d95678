/*
 * The messages of a control connection. Each is a frame (net/codec.h) with the fields in the order
 * below.
 *
 * A frame is at most RD_FRAME_MAX bytes, so both ends read into fixed buffers. The first three
 * fields of HELLO stay in place in every version, so that a rank of another version is named.
 */
#ifndef RD_CONTROL_MESSAGE_H
#define RD_CONTROL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/call_site.h"
#include "base/error.h"
#include "base/settings.h"
#include "bootstrap/link_failure.h"
#include "bootstrap/member.h"
#include "bootstrap/member_table.h"
#include "exec/signature.h"

#define RD_LIBRARY_SIZE 32
#define RD_WIRE_VERSION 29
#define RD_FRAME_MAX 5120
#define RD_COSTS_SIZE 3328 /* of the text of costs, and of rows (calibrate.c) */
#define RD_OPEN_MOST 64 /* ranks in an OPEN */
#define RD_STRAGGLERS_SIZE 1024 /* bytes of bits in a STRAGGLERS */

enum rd_control_kind {
	RD_CONTROL_HELLO = 1, /* to the coordinator: identity and settings of this rank */
	RD_CONTROL_HEARTBEAT, /* both ways; the coordinator's first one accepts the rank */
	RD_CONTROL_TABLE, /* to each rank: a part of the table of members; all in order */
	/* To the coordinator: this rank can call, with these limits of its links. To each rank: all
	   can, with the least limits. */
	RD_CONTROL_READY,
	RD_CONTROL_REPORT, /* to the coordinator: a failure */
	RD_CONTROL_QUERY, /* to each rank: asks for an ANSWER */
	RD_CONTROL_ANSWER, /* to the coordinator: the state of this rank's calls */
	/* To each rank: the comm is over, with the reason; the last message. To the coordinator:
	   this rank has given rank 0 up. */
	RD_CONTROL_VERDICT,
	RD_CONTROL_BYE, /* to the coordinator: this rank leaves */
	/* To each rank: the first has left, or rank 0, or all others; to a leaver, the
	   last message. In a shrink: the rank to whose place this one has come has no comm
	   of the lineage any more. */
	RD_CONTROL_LEFT,
	RD_CONTROL_LINK_FAILED, /* a link failed to open: to the coordinator, then to both ranks */
	/* To the coordinator: this rank opens links to these ranks. To each of them: these ranks
	   open links to it. */
	RD_CONTROL_OPEN,
	RD_CONTROL_COSTS, /* rank 0's to the coordinator; to each other rank */
	/* To the coordinator: this rank waits for long, in a call; before READY, for the other
	   ranks. */
	RD_CONTROL_SLOW,
	/* In a shrink (shrink/shrink.h), beside VERDICT: */
	RD_CONTROL_GATHER, /* to the leader: this rank has come */
	RD_CONTROL_PLAN, /* to each member: its place in the new comm */
	/* To the leader: this rank has made the new comm, or cannot. To each member: all have made
	   it, which commits it. */
	RD_CONTROL_MADE,
	/* In a rendezvous again, to each rank: who is late for the call that the VERDICT ends. */
	RD_CONTROL_STRAGGLERS,
	RD_CONTROL_LAST = RD_CONTROL_STRAGGLERS
};

/* A set of kinds, which a machine keeps for the messages that it has still to send. */
typedef uint32_t rd_control_kinds;

static inline rd_control_kinds rd_control_bit(enum rd_control_kind kind)
{
	return UINT32_C(1) << kind;
}

/* Takes a kind out of the set. False: it is not in there. */
static inline bool rd_control_take_bit(rd_control_kinds *kinds, enum rd_control_kind kind)
{
	bool found = *kinds & rd_control_bit(kind);

	*kinds &= ~rd_control_bit(kind);
	return found;
}

/* The costs of messages, as text: rank 0 has measured or found them, and all compute with them. */
struct rd_control_costs {
	uint16_t size; /* 0: not yet */
	unsigned char text[RD_COSTS_SIZE];
};

struct rd_control_message {
	enum rd_control_kind kind;
	union {
		struct {
			uint32_t version;
			int32_t rank, size;
			char library[RD_LIBRARY_SIZE]; /* its version */
			uint64_t comm; /* the id of a group; 0: the coordinator draws one */
			uint64_t digest; /* of the settings; then those that it is made of */
			int32_t channels;
			uint64_t piece_size;
			char algo[RD_STRING_MAX];
			char plugins[RD_STRING_MAX];
			char job[RD_STRING_MAX];
			struct rd_identity identity;
		} hello;
		struct {
			uint32_t timeout_ms; /* the sender's bound on silence */
		} heartbeat;
		struct {
			struct rd_comm_id id;
			struct rd_table_part part;
		} table;
		struct {
			uint32_t fallbacks; /* that this rank has received; 0 to a rank */
			struct rd_link_limits limits; /* of this rank's links; the least of all */
		} ready;
		struct {
			int32_t error, culprit; /* culprit: -1: none */
			uint32_t done; /* of a death: calls that the culprit had finished */
			uint64_t comm; /* as HELLO's, in its place */
			char reason[RD_REASON_SIZE];
		} report;
		struct {
			uint32_t number;
		} query;
		struct {
			uint32_t number; /* of the query */
			uint32_t calls, done;
			int32_t collective, waiting_for;
			uint32_t waited_ms; /* for waiting_for; 0: it does not wait */
			struct rd_signature slept_in; /* number 0: none */
			/* Call sites: of the latest collective, of the wait; "": unknown. */
			char called_at[RD_CALL_SITE_SIZE], waits_at[RD_CALL_SITE_SIZE];
		} answer;
		struct {
			uint32_t line_ms; /* it waited so far, a line is due; 0: none is */
			int32_t culprit; /* -1: none */
			char reason[RD_REASON_SIZE];
		} slow;
		struct {
			int32_t error, lost; /* lost: the rank that died or was lost; -1: none */
			uint32_t spared; /* calls up to this one may end well; 0: none */
			char reason[RD_REASON_SIZE];
		} verdict;
		struct {
			uint32_t first; /* the rank of the lowest bit in bits[0] */
			uint16_t size;
			unsigned char bits[RD_STRAGGLERS_SIZE]; /* one a rank; 1: it is late */
		} stragglers;
		struct {
			uint32_t calls;
			uint64_t digest;
		} bye;
		struct {
			int32_t rank;
			uint32_t calls;
			uint32_t leavers; /* so far, with this one */
		} left;
		struct {
			uint64_t lineage; /* its id */
			int32_t origin; /* of this rank; -1: it only asks */
		} gather;
		struct {
			int32_t rank, size; /* in the new comm */
			uint32_t port; /* where it meets, at the leader's address */
			int32_t lost; /* ranks that are left out, and may live on */
		} plan;
		struct {
			int32_t error; /* 0: this rank has made the comm */
			int32_t refuses; /* 1: by its vote: the ranks do not begin again */
			char reason[RD_REASON_SIZE];
		} made;
		struct rd_control_costs costs;
		struct rd_link_failure link_failed;
		struct {
			int32_t count, ranks[RD_OPEN_MOST];
		} open;
	};
};

/* The message of these costs, of RD_COSTS_SIZE bytes at most. */
void rd_control_write_costs(struct rd_control_message *message, const char *costs);

/* Writes the message, which it leaves unchanged, as a frame; returns its size in bytes. */
size_t rd_control_encode(struct rd_control_message *message, unsigned char frame[RD_FRAME_MAX]);

/*
 * Reads the first frame in bytes[size]. Returns the number of bytes it took; 0: the frame is valid
 * so far, and not complete; RONDO_PROTOCOL with a reason: this is no message. Texts are terminated,
 * with '?' for control characters. Error codes, counts and collectives are in range; ranks are not
 * negative, or -1 where that is allowed.
 */
int rd_control_decode(const unsigned char *bytes, size_t size, struct rd_control_message *message);

#endif
