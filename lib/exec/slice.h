/*
 * Slices: how the executor cuts the blocks of a call, and the addresses of their parts. A block is
 * cut into the plan's parts (a part of a block is a chunk), a chunk into pieces that fit a
 * message. A slice is the part of one chunk in one piece. Short functions that run for each
 * message are inline.
 */
#ifndef RD_SLICE_H
#define RD_SLICE_H

#include "exec/exec.h"

/* Pieces begin at multiples of this, so that chunks of one buffer share no cache line. */
#define RD_SLICE_ALIGNMENT 64

/* The most bytes of a slice, where a message holds piece_size. */
static inline size_t rd_slice_most(size_t piece_size)
{
	return piece_size / RD_SLICE_ALIGNMENT * RD_SLICE_ALIGNMENT;
}

/* The cases that the inline functions below leave out: a plan of several parts, blocks of
   different lengths. */
void rd_slices_cut_long(struct rd_exec *exec, size_t piece_size);
size_t rd_slice_count_of_part(const struct rd_exec *exec, int chunk, size_t piece);
size_t rd_slice_offset_of_part(const struct rd_exec *exec, struct rd_where where, size_t piece);

/* Cuts a block into the plan's parts, and a part into pieces of equal length that fit a message. */
static inline void rd_slices_cut(struct rd_exec *exec, size_t piece_size)
{
	exec->chunk_count = exec->piece_count = exec->call.count;
	exec->pieces = 1;
	/* Short calls, in which the time of every division would show. */
	if (exec->one_chunk && exec->call.count * exec->element <= rd_slice_most(piece_size))
		return;
	rd_slices_cut_long(exec, piece_size);
}

/* Elements of a chunk that lie in a piece. */
static inline size_t rd_slice_count(const struct rd_exec *exec, int chunk, size_t piece)
{
	if (!exec->one_chunk)
		return rd_slice_count_of_part(exec, chunk, piece);
	if (piece == 0)
		return exec->piece_count;

	size_t begin = piece * exec->piece_count, count = exec->call.count;
	size_t left = count > begin ? count - begin : 0;

	return left < exec->piece_count ? left : exec->piece_count;
}

/* Bytes from the start of an input or output to a slice of one of its chunks. */
static inline size_t rd_slice_offset(
	const struct rd_exec *exec, struct rd_where where, size_t piece)
{
	if (!exec->one_chunk)
		return rd_slice_offset_of_part(exec, where, piece);
	return (where.chunk * exec->call.count + piece * exec->piece_count) * exec->element;
}

/* The address of the slice in this rank's memory; NULL: none. */
static inline char *rd_slice_at(
	const struct rd_exec *exec, struct rd_where where, int channel, size_t piece)
{
	char *base = where.memory == RD_IN ? (char *)exec->call.in : exec->call.out;

	if (where.memory == RD_NOWHERE)
		return NULL;
	if (where.memory == RD_SCRATCH) {
		size_t chunk = (size_t)channel * exec->scratch_chunks + where.chunk;

		return exec->scratch + chunk * exec->scratch_slice;
	}
	/* A call without bytes may have no buffer, as a barrier does; NULL + 0 is undefined in
	   C. */
	if (!base || (exec->one_chunk && where.chunk == 0 && piece == 0))
		return base;
	return base + rd_slice_offset(exec, where, piece);
}

#endif
