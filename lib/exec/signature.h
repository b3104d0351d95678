/*
 * Signatures: each message's tag holds one, and it must be the same on both sides. A receiver
 * thereby detects that its peer makes another call, or runs another plan, before it uses a byte.
 */
#ifndef RD_SIGNATURE_H
#define RD_SIGNATURE_H

#include <string.h>

#include "exec/call.h"

/* 24 bytes: a tag. */
struct rd_signature {
	uint64_t count; /* of the message's own block, where blocks differ in length */
	uint32_t number; /* of the call; for a transfer, of the transfer between this pair */
	uint32_t root; /* or the digest of all lengths, where blocks differ in length */
	uint8_t collective, type, op;
	uint8_t form; /* RD_FORM_ bits */
	/* of the plan: it differs where the ranks' plans differ. Only in messages: a mark */
	uint32_t chunk;
};

#define RD_CHUNK_NONE (1u << 31) /* signals have no chunk */
#define RD_CHUNK_SUM (1u << 30) /* the mark of a mean's partial sum (mean.h) */

#define RD_FORM_EXCHANGES_BUFFERS 1 /* of a buffer exchange (comm/buffer_exchange.h) */
#define RD_FORM_VCOUNTS 2 /* a v-call: blocks differ in length (vcounts.h) */
#define RD_FORM_CAPTURED 4 /* captured in a device's graph, to be run later (progress.h) */
#define RD_FORM_ALGORITHM 8 /* times the mark of the algorithm of the plan; 0: none */

/* The signature of a call; chunk is 0. */
struct rd_signature rd_signature_of(const struct rd_call *call);

/* "all_reduce #17 of 100 f32 sum", "barrier #2". */
void rd_signature_print(const struct rd_signature *signature, char *text, size_t size);

/* The signature of an ordinary call; rd_signature_add_unusual() adds vcounts and a user operation.
   These are the two parts of rd_signature_of(). The executor calls them apart, which saves it a
   test in each call. */
static inline struct rd_signature rd_signature_of_ordinary(const struct rd_call *call)
{
	return (struct rd_signature){
		.count = call->full_count ? call->full_count : call->count,
		.number = call->number,
		.root = call->problem.root,
		.collective = call->problem.collective,
		.type = call->type,
		.op = call->op,
	};
}

void rd_signature_add_unusual(struct rd_signature *signature, const struct rd_call *call);

/* Records the mismatch of a message, in its signature or in its number of bytes: the two ranks,
   and the fields that differ. parts: of the plan. Returns RONDO_MISMATCH. */
int rd_signature_mismatch(const struct rd_call *call, int parts, int peer,
	const struct rd_signature *theirs, const struct rd_signature *ours, size_t sent,
	size_t wanted);

/* Returns whether a message's tag is this signature. */
static inline bool rd_signature_is_same(const void *tag, const struct rd_signature *signature)
{
	uint64_t differ = 0, x, y;

	/* Word by word: compilers would copy arrays to the stack in other units, and wait. */
	for (size_t at = 0; at < sizeof(*signature); at += sizeof(x)) {
		memcpy(&x, (const char *)tag + at, sizeof(x));
		memcpy(&y, (const char *)signature + at, sizeof(y));
		differ |= x ^ y;
	}
	return differ == 0;
}

/* Returns whether theirs has this call's number and is the signature of another call. A buffer
   exchange and its call count as one call. Blocks of different lengths may give messages of
   different counts. Transfers have numbers of their own. */
bool rd_signature_mismatches(const struct rd_signature *theirs, const struct rd_signature *ours);

#endif
