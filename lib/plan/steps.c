#include "plan/steps.h"

#include <stdlib.h>

#include "base/grow.h"
#include "plan/refuse.h"
#include "plan/view.h"

/* ---- Messages ------------------------------------------------------------------------------- */

int rd_plan_chunk_count(const struct rd_plan *plan)
{
	return rd_blocks(&plan->real) * plan->parts;
}

struct rd_step *rd_plan_append(struct rd_plan *plan, enum rd_step_kind kind)
{
	struct rd_step new = { .kind = kind, .peer = -1, .to = -1, .sender = -1, .chunk = -1 };

	/* Other ranks' memory may have places that this rank's has not: see finish.c. */
	if ((rd_step_is_signal(&new) || rd_step_is_direct(&new)) && !plan->direct_access) {
		rd_plan_refuse(plan, "accesses another rank's memory, and its algorithm is not "
				     "marked `direct_access`");
		return NULL;
	}
	if (!rd_grow(&plan->steps, plan->step_count, &plan->capacity, sizeof(new))) {
		rd_plan_out_of_memory(plan);
		return NULL;
	}
	plan->steps[plan->step_count] = new;
	return &plan->steps[plan->step_count++];
}

void rd_plan_place_chunks(struct rd_plan *plan)
{
	int count = rd_plan_chunk_count(plan);

	free(plan->now);
	plan->now = calloc(count, sizeof(*plan->now)); /* RD_NOWHERE is 0 */
	if (!plan->now) {
		rd_plan_out_of_memory(plan);
		return;
	}
	for (int in = 0; in < rd_in_blocks(&plan->real) * plan->parts; in++) {
		int block = rd_block_of_in(&plan->real, in / plan->parts);

		plan->now[block * plan->parts + in % plan->parts] = (struct rd_where){ RD_IN, in };
	}
}

void rd_plan_parts(struct rd_plan *plan, int parts)
{
	if (plan->error || rd_view_parts(plan, parts))
		return;
	if (parts < 1 || plan->step_count > 0) {
		rd_plan_refuse(plan, "parts must be at least 1, and set before the first step (%d)",
			parts);
		return;
	}
	plan->parts = parts;
	rd_plan_place_chunks(plan);
}

/* Checks the peer and chunk of a step, and makes them the plan's own numbers. Returns whether there
   is a step to append. */
static bool valid(struct rd_plan *plan, int *peer, int *chunk)
{
	if (plan->error)
		return false;
	if (*peer < 0 || *peer >= plan->problem.size || *peer == plan->problem.rank)
		rd_plan_refuse(plan, "no such peer (peer %d, chunk %d)", *peer, *chunk);
	else if (*chunk < 0 || *chunk >= rd_view_chunks(plan))
		rd_plan_refuse(plan, "no such chunk (peer %d, chunk %d)", *peer, *chunk);
	if (plan->error)
		return false;
	*peer = rd_view_real_rank(plan, *peer);
	*chunk = rd_view_real_chunk(plan, *chunk);
	return *chunk >= 0;
}

/* The place to which this rank writes a chunk: the output, if that has a place for it. */
static struct rd_where home(struct rd_plan *plan, int chunk)
{
	int block = rd_out_block(&plan->real, chunk / plan->parts);

	if (block >= 0)
		return (struct rd_where){ RD_OUT, block * plan->parts + chunk % plan->parts };
	if (plan->now[chunk].memory == RD_SCRATCH)
		return plan->now[chunk];
	return (struct rd_where){ RD_SCRATCH, plan->scratch_chunks++ };
}

/* Makes one step of a receive and the send of its chunk right after it. False: the last step is
   none. */
static bool forward(struct rd_plan *plan, int peer, int chunk)
{
	struct rd_step *last = plan->step_count > 0 ? &plan->steps[plan->step_count - 1] : NULL;

	if (!last || last->chunk != chunk ||
		(last->kind != RD_STEP_RECV && last->kind != RD_STEP_RECV_REDUCE))
		return false;
	last->kind = last->kind == RD_STEP_RECV ? RD_STEP_FORWARD : RD_STEP_REDUCE_FORWARD;
	last->to = peer;
	return true;
}

void rd_send(struct rd_plan *plan, int peer, int chunk)
{
	if (!valid(plan, &peer, &chunk))
		return;
	if (plan->now[chunk].memory == RD_NOWHERE) {
		rd_plan_refuse(plan, "sends a chunk that it does not have (peer %d, chunk %d)",
			peer, chunk);
		return;
	}
	if (forward(plan, peer, chunk))
		return;

	struct rd_step *step = rd_plan_append(plan, RD_STEP_SEND);

	if (!step)
		return;
	step->to = peer;
	step->chunk = chunk;
	step->from = plan->now[chunk];
}

static void receive(struct rd_plan *plan, enum rd_step_kind kind, int peer, int chunk, bool last)
{
	struct rd_step *step = rd_plan_append(plan, kind);

	if (!step)
		return;
	step->peer = peer;
	step->chunk = chunk;
	step->last = last && !rd_view_is_partial(plan);
	if (kind != RD_STEP_RECV)
		step->from = plan->now[chunk];

	struct rd_where into = home(plan, chunk);

	step->into = into;
	plan->now[chunk] = into;
}

void rd_recv(struct rd_plan *plan, int peer, int chunk)
{
	if (valid(plan, &peer, &chunk))
		receive(plan, RD_STEP_RECV, peer, chunk, false);
}

static void recv_reduce(struct rd_plan *plan, int peer, int chunk, bool last)
{
	if (!valid(plan, &peer, &chunk))
		return;
	if (plan->now[chunk].memory == RD_NOWHERE)
		rd_plan_refuse(plan,
			"reduces into a chunk that it does not have (peer %d, chunk %d)", peer,
			chunk);
	else
		receive(plan, RD_STEP_RECV_REDUCE, peer, chunk, last);
}

void rd_recv_reduce(struct rd_plan *plan, int peer, int chunk)
{
	recv_reduce(plan, peer, chunk, false);
}

void rd_recv_reduce_last(struct rd_plan *plan, int peer, int chunk)
{
	recv_reduce(plan, peer, chunk, true);
}

/* Checks a step in which all ranks take part, which no view allows. */
static bool valid_for_all(struct rd_plan *plan, int chunk)
{
	if (plan->error || rd_view_hides_others(plan))
		return false;
	if (plan->problem.size > RD_MERGE_MOST)
		rd_plan_refuse(plan, "merges messages of more ranks than it may (chunk %d)", chunk);
	else if (chunk < 0 || chunk >= rd_plan_chunk_count(plan))
		rd_plan_refuse(plan, "no such chunk (chunk %d)", chunk);
	else if (plan->now[chunk].memory == RD_NOWHERE)
		rd_plan_refuse(plan, "merges into a chunk that it does not have (chunk %d)", chunk);
	return !plan->error;
}

/* Begins with the next rank, as senders to all do. */
void rd_recv_merge(struct rd_plan *plan, int chunk)
{
	int rank = plan->problem.rank, size = plan->problem.size;

	if (!valid_for_all(plan, chunk) || size == 1)
		return;
	for (int s = 1; s < size; s++) {
		struct rd_step *hold = rd_plan_append(plan, RD_STEP_HOLD);

		if (!hold)
			return;
		hold->peer = rd_wrap(rank + s, size);
		hold->chunk = chunk;
	}
	receive(plan, RD_STEP_MERGE, -1, chunk, true);
}

/* ---- Direct access -------------------------------------------------------------------------- */

/* The place of a chunk in the input, or the output, of any rank. */
static struct rd_where place_at(
	const struct rd_plan *plan, enum rd_memory memory, int rank, int chunk)
{
	struct rd_problem there = plan->real;
	int block = chunk / plan->parts;

	there.rank = rank;
	block = memory == RD_IN ? rd_in_block(&there, block) : rd_out_block(&there, block);
	if (block < 0)
		return (struct rd_where){ RD_NOWHERE, 0 };
	return (struct rd_where){ memory, block * plan->parts + chunk % plan->parts };
}

/* Appends a step that brings a chunk of a rank's input into this rank's output. */
static void reach(
	struct rd_plan *plan, enum rd_step_kind kind, int peer, int chunk, const char *refusal)
{
	struct rd_where from = place_at(plan, RD_IN, peer, chunk);
	struct rd_where into = place_at(plan, RD_OUT, plan->real.rank, chunk);
	struct rd_step *step = NULL;

	if (from.memory == RD_NOWHERE || into.memory == RD_NOWHERE)
		rd_plan_refuse(plan, "%s (peer %d, chunk %d)", refusal, peer, chunk);
	else
		step = rd_plan_append(plan, kind);
	if (!step)
		return;
	step->peer = peer;
	step->chunk = chunk;
	step->from = from;
	step->into = into;
	plan->now[chunk] = into;
}

void rd_fetch(struct rd_plan *plan, int peer, int chunk)
{
	if (valid(plan, &peer, &chunk))
		reach(plan, RD_STEP_FETCH, peer, chunk,
			"fetches what is not there, or has no place here");
}

static bool same_where(struct rd_where a, struct rd_where b)
{
	return a.memory != RD_NOWHERE && b.memory != RD_NOWHERE && a.chunk == b.chunk;
}

/* In place, each chunk takes the place of the other, on both ranks. */
void rd_swap(struct rd_plan *plan, int peer, int theirs, int ours)
{
	int most = rd_plan_chunk_count(plan);

	if (plan->error || rd_view_hides_others(plan))
		return;
	if (peer < 0 || peer >= plan->problem.size || peer == plan->problem.rank || theirs < 0 ||
		theirs >= most || ours < 0 || ours >= most) {
		rd_plan_refuse(plan, "no such rank or chunk (peer %d, chunk %d)", peer, theirs);
		return;
	}

	int rank = plan->real.rank;
	struct rd_where from = place_at(plan, RD_IN, peer, theirs);
	struct rd_where into = place_at(plan, RD_OUT, rank, theirs);

	if (!same_where(from, place_at(plan, RD_OUT, peer, ours)) ||
		!same_where(into, place_at(plan, RD_IN, rank, ours))) {
		rd_plan_refuse(plan,
			"swaps what does not lie in the same place (peer %d, chunk %d)", peer,
			theirs);
		return;
	}
	struct rd_step *step = rd_plan_append(plan, RD_STEP_SWAP);

	if (!step)
		return;
	step->peer = peer;
	step->chunk = theirs;
	step->other = ours;
	step->from = from;
	step->into = into;
	plan->now[theirs] = into;
}

void rd_spread(struct rd_plan *plan, int peer, int chunk)
{
	if (plan->error || rd_view_hides_others(plan))
		return;
	if (peer < 0 || peer >= plan->problem.size || chunk < 0 ||
		chunk >= rd_plan_chunk_count(plan)) {
		rd_plan_refuse(plan, "no such rank or chunk (peer %d, chunk %d)", peer, chunk);
		return;
	}
	reach(plan, RD_STEP_SPREAD, peer, chunk, "spreads what is not there, or has no place here");
}

static void combine(struct rd_plan *plan, int to, int chunk, struct rd_where into)
{
	struct rd_where from = place_at(plan, RD_IN, plan->problem.rank, chunk);

	if (from.memory == RD_NOWHERE || into.memory == RD_NOWHERE) {
		rd_plan_refuse(plan,
			"combines what is not there, or has no place there (peer %d, chunk %d)", to,
			chunk);
		return;
	}
	struct rd_step *step = rd_plan_append(plan, RD_STEP_COMBINE);

	if (!step)
		return;
	step->to = to;
	step->chunk = chunk;
	step->from = from;
	step->into = into;
	step->last = true;
	if (to < 0 || to == plan->problem.rank)
		plan->now[chunk] = into;
}

static bool may_combine(struct rd_plan *plan, int to, int chunk)
{
	if (plan->error || rd_view_hides_others(plan))
		return false;
	if (to >= -1 && to < plan->problem.size && chunk >= 0 && chunk < rd_plan_chunk_count(plan))
		return true;
	rd_plan_refuse(plan, "no such rank or chunk (peer %d, chunk %d)", to, chunk);
	return false;
}

void rd_combine(struct rd_plan *plan, int to, int chunk)
{
	if (may_combine(plan, to, chunk))
		combine(plan, to, chunk,
			place_at(plan, RD_OUT, to < 0 ? plan->problem.rank : to, chunk));
}

void rd_combine_aside(struct rd_plan *plan, int chunk)
{
	if (may_combine(plan, plan->problem.rank, chunk))
		combine(plan, plan->problem.rank, chunk,
			(struct rd_where){ RD_SCRATCH, plan->scratch_chunks++ });
}

void rd_expect(struct rd_plan *plan, int chunk)
{
	if (plan->error || rd_view_hides_others(plan))
		return;
	if (chunk < 0 || chunk >= rd_plan_chunk_count(plan) ||
		rd_out_block(&plan->problem, chunk / plan->parts) < 0) {
		rd_plan_refuse(plan, "expects a chunk that has no place here (chunk %d)", chunk);
		return;
	}
	plan->now[chunk] = place_at(plan, RD_OUT, plan->problem.rank, chunk);
}

void rd_signal(struct rd_plan *plan, int peer)
{
	int none = 0;
	struct rd_step *step =
		valid(plan, &peer, &none) ? rd_plan_append(plan, RD_STEP_SIGNAL) : NULL;

	if (step)
		step->to = peer;
}

void rd_await(struct rd_plan *plan, int peer)
{
	int none = 0;
	struct rd_step *step =
		valid(plan, &peer, &none) ? rd_plan_append(plan, RD_STEP_AWAIT) : NULL;

	if (step)
		step->peer = peer;
}
