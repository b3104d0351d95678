/*
 * Signatures: what travels in each message's tag, and must be the same on both sides. So a rank
 * knows that another makes another call, or runs another plan, before it uses a byte.
 */
#ifndef RD_SIGNATURE_H
#define RD_SIGNATURE_H

#include "exec/call.h"

/* 24 bytes: a tag. */
struct rd_signature {
	uint64_t count; /* of the message's own block, where blocks differ in length */
	uint32_t number; /* of the call; of the transfer between this pair, for a transfer */
	uint32_t root; /* the digest of all lengths, where blocks differ in length */
	uint8_t collective, type, op;
	uint8_t form; /* RD_FORM_ bits */
	uint32_t chunk; /* of the plan: a plan that differs between ranks shows here */
};

#define RD_FORM_EXCHANGES_BUFFERS 1 /* the ranks' buffers are being exchanged (buffer_exchange.h) */
#define RD_FORM_VARIED 2 /* blocks differ in length (vcounts.h) */
#define RD_FORM_CAPTURED 4 /* in a device's graph, to be run later (progress.h) */
#define RD_FORM_ALGORITHM 8 /* times the mark of the algorithm whose plan is run; 0: none */

/* What the ranks compare of a call; chunk is 0. */
struct rd_signature rd_signature_of(const struct rd_call *call);

/* "all_reduce #17 of 100 f32 sum". */
void rd_signature_print(const struct rd_signature *signature, char *text, size_t size);

/* What an ordinary call's is, and what terms add to it: the two parts of rd_signature_of(), for
   the executor, where a test between them would be one for each call. */
static inline struct rd_signature rd_signature_of_ordinary(const struct rd_call *call)
{
	return (struct rd_signature){
		.count = call->whole ? call->whole : call->count,
		.number = call->number,
		.root = call->problem.root,
		.collective = call->problem.collective,
		.type = call->type,
		.op = call->op,
	};
}

void rd_signature_add_terms(struct rd_signature *signature, const struct rd_terms *terms);

/* The reason of a message that does not carry what it should, or not as many bytes as wanted: who
   differs from whom in what. parts: of the plan. Returns RONDO_MISMATCH. */
int rd_signature_mismatch(const struct rd_call *call, int parts, int peer,
	const struct rd_signature *theirs, const struct rd_signature *ours, size_t sent,
	size_t wanted);

/* Whether theirs is of this very call, and says that it is another one. A buffer exchange and what
   follows it are one call; blocks that differ in length have messages that do; transfers have
   numbers of their own. */
bool rd_signature_mismatches(const struct rd_signature *theirs, const struct rd_signature *ours);

#endif
