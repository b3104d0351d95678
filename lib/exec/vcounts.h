/*
 * The terms of an unusual call: blocks of different lengths, or a user-defined operation. An
 * ordinary call has no terms, and pays nothing for those of others.
 */
#ifndef RD_VCOUNTS_H
#define RD_VCOUNTS_H

#include <stdbool.h>

#include "rondo.h"

/* One block of an input or output, in bytes from the buffer's start. */
struct rd_extent {
	size_t offset, size;
};

/* The end of the furthest block, in bytes; 0 where there are none. */
size_t rd_extents_end(const struct rd_extent *extents, int blocks);

/* A user-defined operation; its handle is RONDO_OP_OWN + serial. */
struct rd_own_op {
	unsigned serial; /* counts the operations created on this comm: the same on every rank */
	rondo_combine combine; /* NULL: a sum of inputs that were multiplied before */
	void *argument;
	size_t element_size; /* of opaque elements; 0: those of the call's type */
	rondo_type type; /* of the factor */
	double factor; /* memory for one element of that type */
};

struct rd_terms {
	/* By block of this rank's input, and of its output. NULL: all have call->count elements. */
	const struct rd_extent *in, *out;
	/* True: only the ranks that have or want a block have its length. False: all ranks have
	   all lengths, whose hash is `digest`. */
	bool pairwise;
	uint32_t digest;

	bool has_op;
	struct rd_own_op op;
	void *scaled; /* the input times the factor, if that needs memory of its own; owned */
};

struct rd_call;

/* Allocates terms for a call with in_blocks and out_blocks, all zero, for the caller to fill in.
   NULL: no memory. */
struct rd_terms *rd_terms_create(int in_blocks, int out_blocks);
void rd_terms_destroy(const struct rd_terms *terms);

/* Bytes from the start of this rank's input, or output, to the end of its last block. For any
   call. */
size_t rd_call_in_size(const struct rd_call *call);
size_t rd_call_out_size(const struct rd_call *call);

/* Bytes of a block of the collective's space that this rank has or wants. */
size_t rd_terms_block_size(const struct rd_call *call, int block);

#endif
