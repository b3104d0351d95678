/*
 * What an unusual call says beside what every call says: blocks of different lengths, or an
 * operation of the user's own. An ordinary call has no terms, and pays nothing for those of others.
 */
#ifndef RD_VCOUNTS_H
#define RD_VCOUNTS_H

#include <stdbool.h>

#include "rondo.h"

/* Where one block lies in an input or output, in bytes from its start. */
struct rd_extent {
	size_t offset, size;
};

/* Where the furthest of them ends; 0 where there are none. */
size_t rd_extents_end(const struct rd_extent *extents, int blocks);

/* An operation that the user made; its handle is RONDO_OP_OWN + serial. */
struct rd_own_op {
	unsigned serial; /* the number of its making in this comm: the same on every rank */
	rondo_combine combine; /* NULL: a sum of what was multiplied before */
	void *argument;
	size_t element_size; /* of opaque elements; 0: those of the call's type */
	rondo_type type; /* of the factor */
	double factor; /* memory for one element of that type */
};

struct rd_terms {
	/* By block of this rank's input, and of its output. NULL: all are call->count long. */
	const struct rd_extent *in, *out;
	/* Who has a block, and who wants it, know its length, and nobody else. False: all ranks
	   know all lengths, of which this is a digest. */
	bool pairwise;
	uint32_t digest;

	bool has_op;
	struct rd_own_op op;
	void *scaled; /* the input times the factor, if that needs memory of its own; owned */
};

struct rd_call;

/* Terms for a call with so many blocks of in and out, all zero: to be filled in. NULL: no memory.
 */
struct rd_terms *rd_terms_create(int in_blocks, int out_blocks);
void rd_terms_destroy(const struct rd_terms *terms);

/* Bytes from the start of this rank's input, or output, to the end of its last block; of any call.
 */
size_t rd_call_in_size(const struct rd_call *call);
size_t rd_call_out_size(const struct rd_call *call);

/* Bytes of a block of the collective's space that this rank has or wants. */
size_t rd_terms_block_size(const struct rd_call *call, int block);

#endif
