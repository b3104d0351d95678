/*
 * What is said over a control connection: messages, and how they look as bytes.
 *
 *   u32 "RNDO", u16 kind, u16 size of what follows, then the message's fields in the order below;
 *   little endian throughout. A text is u16 length and its bytes, without a NUL; a member's cards
 *   are a u8 count, then each card's name, u16 size and bytes.
 *
 * A frame is at most RD_FRAME_MAX bytes, so both ends read into fixed buffers. The first three
 * fields of HELLO stay where they are in every version: they suffice to say who speaks another one.
 */
#ifndef RD_CONTROL_MESSAGE_H
#define RD_CONTROL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/settings.h"
#include "bootstrap/link_failure.h"
#include "bootstrap/member.h"
#include "exec/signature.h"

#define RD_LIBRARY_SIZE 32
#define RD_WIRE_VERSION 7
#define RD_FRAME_MAX 5120

enum rd_control_kind {
	RD_CONTROL_HELLO = 1, /* to the coordinator: who I am */
	RD_CONTROL_BEAT, /* both ways: I am here. The coordinator's first one welcomes */
	RD_CONTROL_MEMBER, /* to each: who a rank is; every rank in turn, then TABLE */
	RD_CONTROL_TABLE, /* to each: that was all */
	RD_CONTROL_READY, /* to the coordinator: my links are open */
	RD_CONTROL_GO, /* to each: everyone's are */
	RD_CONTROL_REPORT, /* to the coordinator: something failed here */
	RD_CONTROL_QUERY, /* to each: what are you doing? */
	RD_CONTROL_ANSWER, /* to the coordinator: this */
	RD_CONTROL_VERDICT, /* to each: the comm is over, and why; the last word on a connection */
	RD_CONTROL_BYE, /* to the coordinator: I leave */
	RD_CONTROL_FAREWELL, /* to the leaver: heard; the last word on a connection */
	RD_CONTROL_LEFT, /* to each: this rank has left */
	RD_CONTROL_LINK_FAILED, /* to the coordinator: a link of mine did not come about */
	RD_CONTROL_FALLBACK, /* to both of the pair: theirs did not; take another transport */
	RD_CONTROL_LOOKED, /* to the coordinator: I have looked at my links, of which some are not
			      open */
	RD_CONTROL_ALL_LOOKED, /* to each: everyone has since this was said last, or is ready */
	RD_CONTROL_SLOW, /* to the coordinator: a call of mine waits for long */
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

struct rd_control_message {
	enum rd_control_kind kind;
	union {
		struct {
			uint32_t version;
			int32_t rank, size;
			char library[RD_LIBRARY_SIZE]; /* its version */
			uint64_t digest; /* of the settings; then those that it is made of */
			int32_t channels;
			uint64_t piece_size;
			char algo[RD_STRING_MAX];
			char plugins[RD_STRING_MAX];
			struct rd_member member;
		} hello;
		struct {
			uint32_t timeout_ms; /* the silence after which I count you as lost */
		} beat;
		struct {
			int32_t rank;
			struct rd_member member;
		} member;
		struct {
			uint64_t comm_id;
		} table;
		struct {
			uint32_t fallbacks; /* that I know of */
			struct rd_link_limits limits; /* of all my links */
		} ready;
		struct {
			struct rd_link_limits limits; /* of everyone's */
		} go;
		struct {
			int32_t error, culprit; /* culprit: -1: none */
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
			struct rd_signature slept_in; /* number 0: none is known */
		} answer;
		struct {
			uint32_t first; /* 1: the first of this wait */
			int32_t culprit; /* -1: none */
			char reason[RD_REASON_SIZE];
		} slow;
		struct {
			int32_t error;
			char reason[RD_REASON_SIZE];
		} verdict;
		struct {
			uint32_t calls;
			uint64_t digest;
		} bye;
		struct {
			int32_t rank;
			uint32_t calls;
		} left;
		struct rd_link_failure link_failed, fallback;
	};
};

/* Writes the message, which stays as it is, as a frame; returns its size. */
size_t rd_control_encode(struct rd_control_message *message, unsigned char frame[RD_FRAME_MAX]);

/*
 * Reads the first frame in bytes[size]: the number of bytes it took; 0: it is not all there yet
 * (and nothing so far speaks against it); RONDO_PROTOCOL with a reason: this is no message. Texts
 * come out terminated, control characters as '?'; numbers that have a range of their own (codes,
 * counts, a collective) lie in it; ranks are at least not negative.
 */
int rd_control_decode(const unsigned char *bytes, size_t size, struct rd_control_message *message);

#endif
