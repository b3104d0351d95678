#include "check/fields.h"

#include "base/error.h"
#include "plan/print.h"

static int check_where(
	const struct rd_plan *plan, int step, struct rd_where where, const char *verb)
{
	int chunks = rd_plan_chunks(plan, where.memory);

	if (where.memory == RD_NOWHERE)
		return rd_step_wrong(plan, step, "it %s nowhere", verb);
	if (where.chunk < 0 || where.chunk >= chunks)
		return rd_step_wrong(
			plan, step, "it %s a chunk that is not one of the %d there", verb, chunks);
	return 0;
}

static int check_into(const struct rd_plan *plan, int i)
{
	const struct rd_step *step = &plan->steps[i];

	if (step->kind == RD_STEP_SEND || step->kind == RD_STEP_HOLD)
		return 0;
	/* A value that is only passed on need not be kept. */
	if (step->into.memory == RD_NOWHERE && rd_step_sends(step))
		return 0;
	if (step->into.memory == RD_IN)
		return rd_step_wrong(plan, i, "it writes to the input");
	return check_where(plan, i, step->into, "writes to");
}

static int check_peer(const struct rd_plan *plan, int step, int peer)
{
	if (peer < 0 || peer >= plan->problem.size)
		return rd_step_wrong(plan, step, "there is no rank %d", peer);
	if (peer == plan->problem.rank)
		return rd_step_wrong(plan, step, "no link leads from a rank to itself");
	return 0;
}

static int check_flush(const struct rd_plan *plan, int i)
{
	int sender = plan->steps[i].sender;

	if (sender < 0 || sender >= i || !rd_step_sends(&plan->steps[sender]))
		return rd_step_wrong(plan, i, "no earlier step %d sends", sender);
	if (plan->steps[i].to != plan->steps[sender].to)
		return rd_step_wrong(plan, i, "step %d sends to rank %d, not to %d", sender,
			plan->steps[sender].to, plan->steps[i].to);
	return 0;
}

/* After a HOLD, no step but other HOLDs takes messages before the MERGE. */
static int check_hold(const struct rd_plan *plan, int i)
{
	int merge = i + 1;

	while (merge < plan->step_count && rd_step_is_before_merge(&plan->steps[merge]))
		merge++;
	if (merge == plan->step_count || plan->steps[merge].kind != RD_STEP_MERGE ||
		plan->steps[merge].chunk != plan->steps[i].chunk)
		return rd_step_wrong(plan, i, "what it holds is not merged next");
	for (int k = i + 1; k < merge; k++)
		if (plan->steps[k].kind == RD_STEP_HOLD &&
			plan->steps[k].peer == plan->steps[i].peer)
			return rd_step_wrong(plan, k, "step %d already holds rank %d's message", i,
				plan->steps[i].peer);
	return 0;
}

/* One HOLD for each other rank: check_hold() refuses two for the same. */
static int check_merge(const struct rd_plan *plan, int i)
{
	int holds = 0;

	if (plan->problem.size > RD_MERGE_MOST)
		return rd_step_wrong(plan, i, "more than %d ranks", RD_MERGE_MOST);
	for (int k = i - 1; k >= 0 && rd_step_is_before_merge(&plan->steps[k]); k--)
		holds += plan->steps[k].kind == RD_STEP_HOLD;
	if (holds == 0 || holds != plan->problem.size - 1)
		return rd_step_wrong(plan, i, "it merges the messages of %d ranks, and %d are held",
			plan->problem.size - 1, holds);
	return 0;
}

int rd_check_merge(const struct rd_plan *plan, int step)
{
	switch (plan->steps[step].kind) {
	case RD_STEP_HOLD:
		return check_hold(plan, step);
	case RD_STEP_MERGE:
		return check_merge(plan, step);
	default:
		return 0;
	}
}

static int check_signal(const struct rd_plan *plan, int i)
{
	const struct rd_step *step = &plan->steps[i];

	if (step->chunk != -1 || step->last)
		return rd_step_wrong(plan, i, "a signal carries nothing, but it names a chunk");
	return check_peer(plan, i, step->kind == RD_STEP_SIGNAL ? step->to : step->peer);
}

/* In an output, or in scratch memory if the rank combines for itself alone. */
static bool may_land(const struct rd_plan *plan, const struct rd_step *step)
{
	return step->into.memory == RD_OUT ||
	       (step->into.memory == RD_SCRATCH && step->kind == RD_STEP_COMBINE &&
		       step->to == plan->problem.rank);
}

/* The memory that it accesses at other ranks is checked when the step runs. */
static int check_direct(const struct rd_plan *plan, int i)
{
	const struct rd_step *step = &plan->steps[i];
	bool fetches = step->kind == RD_STEP_FETCH || step->kind == RD_STEP_SWAP;
	bool spreads = step->kind == RD_STEP_SPREAD;
	int err;

	if (step->from.memory != RD_IN || step->from.chunk < 0)
		return rd_step_wrong(plan, i, "it reads what is no input");
	if (!may_land(plan, step) || step->into.chunk < 0)
		return rd_step_wrong(plan, i, "it writes to what is no output");
	if (plan->problem.size < 2)
		return rd_step_wrong(plan, i, "there is no second rank");
	if (!fetches && !spreads && (step->to < -1 || step->to >= plan->problem.size))
		return rd_step_wrong(plan, i, "there is no rank %d", step->to);
	if (fetches || (spreads && step->peer != plan->problem.rank))
		err = check_peer(plan, i, step->peer);
	else
		err = check_where(plan, i, step->from, "reads");
	if (!err && (fetches || spreads || step->to < 0 || step->to == plan->problem.rank))
		err = check_where(plan, i, step->into, "writes to");
	if (!err && step->kind == RD_STEP_SWAP &&
		(step->other < 0 || step->other >= rd_blocks(&plan->problem) * plan->parts))
		err = rd_step_wrong(plan, i, "there is no chunk to go the other way");
	if (!err && step->kind == RD_STEP_SWAP)
		err = check_where(plan, i, (struct rd_where){ RD_IN, step->into.chunk }, "reads");
	return err;
}

static int check_step(const struct rd_plan *plan, int i)
{
	const struct rd_step *step = &plan->steps[i];
	bool reduces = rd_step_reduces(step) || step->kind == RD_STEP_COMBINE;
	int err = 0;

	if ((unsigned)step->kind > RD_STEP_SPREAD || (unsigned)step->from.memory > RD_SCRATCH ||
		(unsigned)step->into.memory > RD_SCRATCH)
		return rd_fail(RONDO_INVALID, "rank %d, step %d: no such kind of step or memory",
			plan->problem.rank, i);
	if (step->kind == RD_STEP_FLUSH)
		return check_flush(plan, i);
	if ((rd_step_is_signal(step) || rd_step_is_direct(step)) && !plan->direct_access)
		return rd_step_wrong(plan, i, "its algorithm is not marked `direct_access`");
	if (rd_step_is_signal(step))
		return check_signal(plan, i);
	if (step->chunk < 0 || step->chunk >= rd_blocks(&plan->problem) * plan->parts)
		return rd_step_wrong(plan, i, "there is no such chunk");
	if (reduces && !rd_collective_reduces(plan->problem.collective))
		return rd_step_wrong(plan, i, "%s reduces nothing",
			rd_collective_name(plan->problem.collective));
	if (step->last && !reduces)
		return rd_step_wrong(plan, i, "`last` stands on a step that reduces nothing");
	if (rd_step_is_direct(step))
		return check_direct(plan, i);
	if (rd_step_receives(step))
		err = check_peer(plan, i, step->peer);
	if (!err && rd_step_sends(step))
		err = check_peer(plan, i, step->to);
	if (!err && rd_step_reads(step))
		err = check_where(plan, i, step->from, "reads");
	if (!err)
		err = rd_check_merge(plan, i);
	return err ? err : check_into(plan, i);
}

static bool same_problem(const struct rd_plan *a, const struct rd_plan *b)
{
	return a->problem.collective == b->problem.collective &&
	       a->problem.size == b->problem.size && a->problem.root == b->problem.root &&
	       a->problem.target == b->problem.target && a->parts == b->parts;
}

int rd_check_fields(struct rd_plan *const *plans, int size, int rank)
{
	const struct rd_plan *plan = plans[rank];
	int err;

	if (plan->error)
		return rd_fail(RONDO_INVALID, "rank %d: its plan was not finished", rank);
	if (plan->problem.rank != rank || plan->problem.size != size)
		return rd_fail(RONDO_INVALID, "rank %d of %d: its plan is for rank %d of %d", rank,
			size, plan->problem.rank, plan->problem.size);
	if (!same_problem(plan, plans[0]))
		return rd_fail(
			RONDO_INVALID, "rank %d: its plan is for another call than rank 0's", rank);
	if (plan->parts < 1 || plan->scratch_chunks < 0)
		return rd_fail(RONDO_INVALID, "rank %d: %d parts, %d scratch chunks", rank,
			plan->parts, plan->scratch_chunks);
	for (int i = 0; i < plan->step_count; i++) {
		err = check_step(plan, i);
		if (err)
			return err;
	}
	return 0;
}
