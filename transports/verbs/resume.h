/*
 * The counts by which two ends of a link go on over another rail: pure arithmetic.
 *
 * A side sends a resume when the queue pair that has failed can bring it no more messages: how many
 * have arrived, and how many of these are released. The other side sends again those that have not
 * arrived. Both counts go into immediate data of 32 bits, so they are counted modulo 2^16: a sender
 * knows all but the last RD_VERBS_MESSAGES of them.
 */
#ifndef RD_VERBS_RESUME_H
#define RD_VERBS_RESUME_H

#include <stdbool.h>
#include <stdint.h>

#include "transports/verbs/ring.h"

#define RD_VERBS_RESUME_SHIFT 16 /* of the messages that have arrived and are not released */
#define RD_VERBS_RESUME_MASK 0x7f0000u

_Static_assert(RD_VERBS_MESSAGES <= RD_VERBS_RESUME_MASK >> RD_VERBS_RESUME_SHIFT, "they fit");

/* Messages that the receiver of a direction has, of all that were ever sent. */
struct rd_verbs_counts {
	uint64_t arrived, released; /* released <= arrived */
};

static inline uint32_t rd_verbs_resume_encode(struct rd_verbs_counts counts)
{
	uint32_t held = (uint32_t)(counts.arrived - counts.released);

	return held << RD_VERBS_RESUME_SHIFT | (uint16_t)counts.released;
}

/*
 * The counts in a resume, as the sender of `count` messages reads it, who knows of `released` ones.
 * False: no receiver can have sent it.
 */
static inline bool rd_verbs_resume_decode(
	uint32_t immediate, uint64_t count, uint64_t released, struct rd_verbs_counts *counts)
{
	uint64_t held = (immediate & RD_VERBS_RESUME_MASK) >> RD_VERBS_RESUME_SHIFT;
	uint16_t more = (uint16_t)(immediate - (uint32_t)released);

	counts->released = released + more;
	counts->arrived = counts->released + held;
	return counts->arrived <= count;
}

/*
 * The rail by which a link goes on where `rail` has failed: the next of those that work (bits), in
 * turn. Both ends follow the same order. -1: none works.
 */
static inline int rd_verbs_rail_after(int rail, uint32_t working)
{
	for (int step = 1; step < 32; step++)
		if (working >> (rail + step) % 32 & 1)
			return (rail + step) % 32;
	return -1;
}

#endif
