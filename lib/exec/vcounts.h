/*
 * The offset and length of each block of a v-call. Other calls have none: all their blocks have
 * call->count elements.
 */
#ifndef RD_VCOUNTS_H
#define RD_VCOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/collective.h"

/* One block of an input or output, in bytes from the buffer's start. Code that reads all bytes up
   to the last block's end has to know that no gap lies between them. */
struct rd_extent {
	size_t offset, size;
};

struct rd_vcounts {
	struct rd_extent *in, *out; /* by block of this rank's input, and of its output */
	/* True: only the ranks that have or want a block have its length. False: all ranks have
	   all lengths, whose hash is `digest`. */
	bool pairwise;
	uint32_t digest;
	/* Blocks came as a list of addresses, which may be of any host memory. Offsets then begin
	   at the lowest one. */
	bool listed;
};

/* Allocates the lengths of in_blocks and out_blocks, all zero, for the caller to fill in. NULL: no
   memory. */
struct rd_vcounts *rd_vcounts_create(int in_blocks, int out_blocks);
struct rd_vcounts *rd_vcounts_copy(const struct rd_vcounts *of, int in_blocks, int out_blocks);
void rd_vcounts_destroy(struct rd_vcounts *vcounts);

/* Ends the names of such calls: "_v", or "_list". */
static inline const char *rd_vcounts_suffix(bool listed)
{
	return listed ? "_list" : "_v";
}

/* The end of the furthest block, in bytes; 0 where there are none. */
size_t rd_extents_end(const struct rd_extent *extents, int blocks);
/* The bytes of all blocks, without gaps. */
size_t rd_extents_total(const struct rd_extent *extents, int blocks);

/* Bytes of a block of the collective's space; 0 where this rank neither has nor wants it. */
size_t rd_vcounts_block_size(
	const struct rd_vcounts *vcounts, const struct rd_problem *problem, int block);

#endif
