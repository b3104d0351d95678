#include "exec/slice.h"

#include "base/arith.h"

static size_t less(size_t a, size_t b)
{
	return a > b ? a - b : 0;
}

static size_t max(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Elements in a cache line; 1 where they do not fit one. */
static size_t line_count(const struct rd_exec *exec)
{
	return exec->element < RD_SLICE_ALIGNMENT ? RD_SLICE_ALIGNMENT / exec->element : 1;
}

/* Elements in a chunk of a block of `block_count` elements. */
static size_t part_count(const struct rd_exec *exec, size_t block_count)
{
	size_t parts = exec->plans[0]->parts;

	return parts == 1 ? block_count
			  : rd_round_up((block_count + parts - 1) / parts, line_count(exec));
}

static size_t most_pieces(const struct rd_exec *exec, const struct rd_extent *extents, int blocks)
{
	size_t most = 0;

	for (int i = 0; i < blocks; i++) {
		size_t count = part_count(exec, extents[i].size / exec->element);

		most = max(most, (count + exec->piece_count - 1) / exec->piece_count);
	}
	return most;
}

/*
 * Blocks of different lengths are all cut at the same places, wherever they end, because not every
 * rank has the greatest length. The number of pieces is this rank's own: no rank sends or expects
 * data beyond a block's end.
 */
static void cut_by_vcounts(struct rd_exec *exec, size_t piece_size)
{
	const struct rd_vcounts *vcounts = exec->call.vcounts;
	const struct rd_problem *problem = &exec->call.problem;
	size_t line = line_count(exec), most = rd_slice_most(piece_size) / exec->element;

	exec->chunk_count = 0;
	exec->piece_count = most - most % line;
	exec->pieces = max(1, max(most_pieces(exec, vcounts->in, rd_in_blocks(problem)),
				      most_pieces(exec, vcounts->out, rd_out_blocks(problem))));
}

void rd_slices_cut_long(struct rd_exec *exec, size_t piece_size)
{
	size_t line = line_count(exec);
	size_t most = rd_slice_most(piece_size) / exec->element;

	if (exec->call.vcounts) {
		cut_by_vcounts(exec, piece_size);
		return;
	}
	exec->chunk_count = part_count(exec, exec->call.count);
	exec->piece_count = exec->chunk_count;
	if (exec->chunk_count > most) {
		exec->pieces = (exec->chunk_count + most - 1) / most;
		exec->piece_count =
			rd_round_up((exec->chunk_count + exec->pieces - 1) / exec->pieces, line);
		exec->pieces = (exec->chunk_count + exec->piece_count - 1) / exec->piece_count;
	}
}

/* The length of a block of the collective's space. */
static size_t block_count(const struct rd_exec *exec, int block)
{
	const struct rd_call *call = &exec->call;

	if (!call->vcounts)
		return call->count;
	return rd_vcounts_block_size(call->vcounts, &call->problem, block) / exec->element;
}

size_t rd_slice_count_of_part(const struct rd_exec *exec, int chunk, size_t piece)
{
	int parts = exec->plans[0]->parts, part = chunk % parts;
	size_t count = block_count(exec, chunk / parts);
	size_t most = exec->call.vcounts ? part_count(exec, count) : exec->chunk_count;
	size_t in_chunk = rd_min(most, less(count, part * most));

	return rd_min(exec->piece_count, less(in_chunk, piece * exec->piece_count));
}

size_t rd_slice_offset_of_part(const struct rd_exec *exec, struct rd_where where, size_t piece)
{
	const struct rd_vcounts *vcounts = exec->call.vcounts;
	size_t block = where.chunk / exec->plans[0]->parts,
	       part = where.chunk % exec->plans[0]->parts;
	size_t begin = block * exec->call.count * exec->element, most = exec->chunk_count;

	if (vcounts) {
		const struct rd_extent *extent =
			where.memory == RD_IN ? &vcounts->in[block] : &vcounts->out[block];

		begin = extent->offset;
		most = part_count(exec, extent->size / exec->element);
	}
	return begin + (part * most + piece * exec->piece_count) * exec->element;
}
