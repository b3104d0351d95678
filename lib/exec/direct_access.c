#include "exec/direct_access.h"

#include <string.h>

#include "base/arith.h"
#include "exec/block.h"
#include "exec/mean.h"
#include "exec/slice.h"

void rd_exec_fetch(struct rd_exec *exec, size_t piece, const struct rd_step *step)
{
	size_t size = rd_slice_count(exec, step->chunk, piece) * exec->element;

	rd_exec_copy(rd_slice_at(exec, step->into, 0, piece),
		exec->peer_buffers[step->peer].in + rd_slice_offset(exec, step->from, piece), size);
}

/* A slice of this many bytes fits no cache: copies for other ranks are written past it, as shorter
   ones are between cores that are far apart. */
#define PAST_CACHE_MIN (8 << 20)

static bool goes_past(const struct rd_exec *exec, size_t size)
{
	return size >= rd_min(PAST_CACHE_MIN, exec->past_least);
}

/* Block by block: each is read once, and is then in our first-level cache. */
void rd_exec_spread(struct rd_exec *exec, size_t piece, const struct rd_step *step)
{
	size_t size = rd_slice_count(exec, step->chunk, piece) * exec->element;
	const char *from =
		exec->peer_buffers[step->peer].in + rd_slice_offset(exec, step->from, piece);
	size_t into = rd_slice_offset(exec, step->into, piece);
	bool past = goes_past(exec, size);

	for (size_t done = 0; done < size; done += RD_EXEC_BLOCK) {
		size_t part = rd_min(RD_EXEC_BLOCK, size - done);

		for (int i = 0; i < exec->call.problem.size; i++) {
			int rank = (exec->call.problem.rank + i) % exec->call.problem.size;
			char *out = exec->peer_buffers[rank].out + into + done;

			if (!rd_spread_reaches(exec->plans[0], step, rank))
				continue;
			if (past && rank != exec->call.problem.rank)
				rd_copy_past(out, from + done, part);
			else
				rd_exec_copy(out, from + done, part);
		}
	}
	rd_copy_past_end();
}

/* Through a block of our own: in place, each slice goes where the other was. */
void rd_exec_swap(struct rd_exec *exec, size_t piece, const struct rd_step *step)
{
	_Alignas(RD_SLICE_ALIGNMENT) char block[RD_EXEC_BLOCK];
	size_t size = rd_slice_count(exec, step->chunk, piece) * exec->element;
	size_t ours = rd_slice_offset(exec, step->into, piece),
	       theirs = rd_slice_offset(exec, step->from, piece);
	const struct rd_peer_buffers *peer = &exec->peer_buffers[step->peer];

	for (size_t done = 0; done < size; done += sizeof(block)) {
		size_t part = rd_min(sizeof(block), size - done);

		memcpy(block, peer->in + theirs + done, part);
		memmove(peer->out + theirs + done, (const char *)exec->call.in + ours + done, part);
		memcpy((char *)exec->call.out + ours + done, block, part);
	}
}

/* A block of all ranks' inputs. */
struct inputs {
	const struct rd_exec *exec;
	size_t at;
};

static const char *input_of(const void *context, int rank)
{
	const struct inputs *inputs = context;

	return inputs->exec->peer_buffers[rank].in + inputs->at;
}

/* Combines one block of all ranks' inputs, in rank order: the same bits on every rank. */
static void combine_block(struct rd_exec *exec, char *result, size_t at, size_t count)
{
	int size = exec->call.problem.size;

	if (exec->call.op == RONDO_AVG) {
		struct inputs inputs = { exec, at };

		rd_mean_all(result, input_of, &inputs, size, count, exec->call.type);
		return;
	}
	rd_exec_reduce(
		exec, result, exec->peer_buffers[0].in + at, exec->peer_buffers[1].in + at, count);
	for (int rank = 2; rank < size; rank++)
		rd_exec_reduce(exec, result, result, exec->peer_buffers[rank].in + at, count);
}

/* Writes a result block to the outputs. `past`: those of other ranks past this core's caches. */
static void spread_block(struct rd_exec *exec, const struct rd_step *step, const char *block,
	size_t at, size_t size, bool past)
{
	for (int rank = 0; rank < exec->call.problem.size; rank++) {
		char *out = exec->peer_buffers[rank].out;

		if ((step->to >= 0 && rank != step->to) || out + at == block)
			continue;
		if (past && rank != exec->call.problem.rank)
			rd_copy_past(out + at, block, size);
		else
			memcpy(out + at, block, size);
	}
}

void rd_exec_combine(struct rd_exec *exec, int channel, size_t piece, const struct rd_step *step)
{
	_Alignas(RD_SLICE_ALIGNMENT) char block[RD_EXEC_BLOCK];
	size_t count = rd_slice_count(exec, step->chunk, piece),
	       most = RD_EXEC_BLOCK / exec->element;
	size_t in = rd_slice_offset(exec, step->from, piece);

	if (step->into.memory == RD_SCRATCH) {
		combine_block(exec, rd_slice_at(exec, step->into, channel, piece), in, count);
		return;
	}

	size_t out = rd_slice_offset(exec, step->into, piece);
	bool past = goes_past(exec, count * exec->element);

	for (size_t done = 0; done < count; done += most) {
		size_t at = done * exec->element, part = rd_min(most, count - done);

		/* Not straight into our output: in place that is an input, still to be read. */
		combine_block(exec, block, in + at, part);
		spread_block(exec, step, block, out + at, part * exec->element, past);
	}
	rd_copy_past_end();
}
