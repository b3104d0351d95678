#include "gpu/compile_direct.h"

#include <string.h>

/* Shares begin at multiples of this many bytes, so that kernels work on whole 16-byte vectors. */
#define ALIGNMENT 64

struct cut {
	const struct rd_call *call;
	int parts;
	size_t element;
};

/* Elements of the block that a chunk is a part of. */
static size_t block_count(const struct cut *cut, int chunk)
{
	const struct rd_call *call = cut->call;

	if (!call->vcounts)
		return call->count;
	return rd_vcounts_block_size(call->vcounts, &call->problem, chunk / cut->parts) /
	       cut->element;
}

/* The element at which a part begins in a block of `count` elements. */
static size_t begin_of(const struct cut *cut, int part, size_t count)
{
	size_t line = ALIGNMENT / cut->element, chunk = (count + cut->parts - 1) / cut->parts;
	size_t begin = part * ((chunk + line - 1) / line * line);

	return begin < count && part < cut->parts ? begin : part > 0 ? count : 0;
}

/* Where a block lies in this rank's input or output; in a peer's, where all ranks can compute it; 0
   where the peer announces it. */
static size_t block_at(const struct cut *cut, struct rd_where where, bool theirs)
{
	const struct rd_vcounts *vcounts = cut->call->vcounts;
	int block = where.chunk / cut->parts;

	if (!vcounts)
		return block * cut->call->count * cut->element;
	if (theirs)
		return 0;
	return where.memory == RD_IN ? vcounts->in[block].offset : vcounts->out[block].offset;
}

static struct rd_work_step move(const struct rd_work *work, const struct cut *cut,
	const struct rd_step *step, size_t begin, size_t end)
{
	bool combines = step->kind == RD_STEP_COMBINE, copies = step->kind == RD_STEP_COPY;
	bool swaps = step->kind == RD_STEP_SWAP, spreads = step->kind == RD_STEP_SPREAD;
	struct rd_where ours = { RD_IN, step->into.chunk };
	struct rd_where theirs = { RD_OUT, spreads ? step->into.chunk : step->from.chunk };
	bool is_ours = combines || copies || step->peer == work->rank;
	size_t at = begin * cut->element;

	return (struct rd_work_step){
		.kind = combines  ? RD_WORK_COMBINE
			: swaps   ? RD_WORK_SWAP
			: spreads ? RD_WORK_SPREAD
				  : RD_WORK_FETCH,
		.peer = copies     ? work->rank
			: combines ? step->to
				   : step->peer,
		.last = step->last,
		.in_at = block_at(cut, step->from, !is_ours) + at,
		.out_at = block_at(cut, step->into, false) + at,
		.ours_at = swaps ? block_at(cut, ours, false) + at : 0,
		.theirs_at = swaps || spreads ? block_at(cut, theirs, true) + at : 0,
		.count = end - begin,
	};
}

/* A store of our own input into our own output is a fetch from ourselves. Blocks that differ in
   length are not swapped: neither lies in the other's place then, and each is fetched. */
static bool take_step(struct rd_work *work, const struct cut *cut, const struct rd_step *step)
{
	struct rd_work_step *made = &work->steps[work->step_count++];
	size_t count = block_count(cut, step->chunk);
	int part = step->chunk % cut->parts;

	if (step->into.memory != RD_OUT || step->from.memory != RD_IN)
		return false;
	if (step->kind == RD_STEP_SWAP && block_count(cut, step->other) != count) {
		*made = move(work, cut, step, 0, count);
		made->kind = RD_WORK_FETCH;
		return true;
	}
	*made = move(work, cut, step, begin_of(cut, part, count), begin_of(cut, part + 1, count));
	return true;
}

static bool is_direct(const struct rd_step *step)
{
	return step->kind == RD_STEP_COMBINE || step->kind == RD_STEP_FETCH ||
	       step->kind == RD_STEP_SWAP || step->kind == RD_STEP_SPREAD;
}

static bool has_spread(const struct rd_plan *plan)
{
	for (int i = 0; plan && i < plan->step_count; i++)
		if (plan->steps[i].kind == RD_STEP_SPREAD)
			return true;
	return false;
}

/* The block that one rank has for another; -1: there is none. */
static int pair_block(const struct rd_problem *problem, int from, int to)
{
	switch (problem->collective) {
	case RD_ALL_GATHER:
		return from;
	case RD_GATHER:
		return to == problem->root ? from : -1;
	case RD_SCATTER:
		return from == problem->root ? to : -1;
	case RD_ALL_TO_ALL:
		return from * problem->size + to;
	default:
		return -1;
	}
}

size_t rd_compile_pair_size(const struct rd_call *call, int from, int to)
{
	int block = pair_block(&call->problem, from, to);

	return block < 0 ? 0 : rd_vcounts_block_size(call->vcounts, &call->problem, block);
}

/* Sets the places in our buffers of the data for each peer, which cannot compute them. */
static void set_places(struct rd_work *work, const struct rd_call *call)
{
	const struct rd_vcounts *vcounts = call->vcounts;

	for (int peer = 0; peer < work->size; peer++) {
		int block = pair_block(&call->problem, work->rank, peer);
		int in = block < 0 ? -1 : rd_in_block(&call->problem, block);

		work->in_for[peer] = in < 0 ? 0 : vcounts->in[in].offset;
		if (call->problem.collective == RD_ALL_TO_ALL ||
			call->problem.collective == RD_ALL_GATHER)
			work->out_for[peer] = vcounts->out[peer].offset;
	}
}

/*
 * The plan's signals are the work's second barrier: they must come after all that touches memory of
 * others. A copy touches our own alone, where others access nothing.
 *
 * Where a plan spreads, its copies serve the output of the rank that has the data. Others' steps of
 * the plan leave that output out, because in place it is the input. Devices see whether it is, and
 * write it as the other outputs, so nothing is left to copy.
 */
bool rd_compile_direct(struct rd_work *work, const struct rd_plan *plan, const struct rd_call *call)
{
	struct cut cut = { .call = call,
		.parts = plan ? plan->parts : 1,
		.element = rondo_type_size(call->type) };
	bool parted = false, copies = !has_spread(plan);

	work->rank = call->problem.rank;
	work->size = call->problem.size;
	work->type = call->type;
	work->op = call->op;
	work->scales = call->user_op != NULL;
	if (work->scales)
		memcpy(&work->factors[work->rank], &call->user_op->factor,
			sizeof(work->factors[0]));
	work->step_count = 0;
	if (work->size > RD_WORK_RANKS || (plan && !plan->direct_access))
		return false;
	if (call->vcounts)
		set_places(work, call);
	for (int i = 0; plan && i < plan->step_count; i++) {
		const struct rd_step *step = &plan->steps[i];

		if (step->kind == RD_STEP_SIGNAL || step->kind == RD_STEP_AWAIT) {
			parted = true;
			continue;
		}
		if (step->kind != RD_STEP_COPY && (parted || !is_direct(step)))
			return false;
		if (step->kind == RD_STEP_COPY && !copies)
			continue;
		if (work->step_count == RD_WORK_STEPS || !take_step(work, &cut, step))
			return false;
	}
	return true;
}

void rd_compile_small(struct rd_small_work *work, const struct rd_call *call)
{
	const struct rd_problem *problem = &call->problem;
	bool spreads = problem->collective == RD_BROADCAST || problem->collective == RD_SCATTER;
	bool collects = problem->collective == RD_REDUCE || problem->collective == RD_GATHER;
	size_t block = call->count * rondo_type_size(call->type);

	*work = (struct rd_small_work){
		.rank = problem->rank,
		.size = problem->size,
		.type = call->type,
		.op = call->op,
		.from = spreads ? problem->root : -1,
		.to = collects ? problem->root : -1,
		.combines = rd_collective_reduces(problem->collective),
		.scales = call->user_op != NULL,
		.count = call->count,
		.in_stride = rd_in_blocks(problem) > 1 ? block : 0,
		.out_stride = rd_out_blocks(problem) > 1 ? block : 0,
		.in = call->in,
		.out = call->out,
	};
	if (work->scales)
		memcpy(&work->factor, &call->user_op->factor, sizeof(work->factor));
}
