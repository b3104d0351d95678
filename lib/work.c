#include "work.h"

#include <string.h>

/* Shares begin at multiples of this many bytes, so that kernels work on whole 16-byte vectors. */
#define ALIGNMENT 64

struct cut {
	int parts;
	size_t count, chunk_count, element;
};

static struct cut cut_of(const struct rd_plan *plan, const struct rd_call *call)
{
	struct cut cut = { plan->parts, call->count, call->count, rondo_type_size(call->type) };

	if (cut.parts > 1) {
		size_t line = ALIGNMENT / cut.element;

		cut.chunk_count = (cut.count + cut.parts - 1) / cut.parts;
		cut.chunk_count = (cut.chunk_count + line - 1) / line * line;
	}
	return cut;
}

static size_t begin_of(const struct cut *cut, int chunk)
{
	size_t begin = (size_t)(chunk % cut->parts) * cut->chunk_count;

	return begin < cut->count ? begin : cut->count;
}

static size_t at_of(const struct cut *cut, int chunk)
{
	return ((size_t)(chunk / cut->parts) * cut->count + begin_of(cut, chunk)) * cut->element;
}

static size_t count_of(const struct cut *cut, int chunk)
{
	size_t left = cut->count - begin_of(cut, chunk);

	return left < cut->chunk_count ? left : cut->chunk_count;
}

/* A store of our own input into our own output is a fetch from ourselves. */
static bool take_step(struct rd_work *work, const struct cut *cut, const struct rd_step *step)
{
	struct rd_work_step *made = &work->steps[work->step_count++];
	bool copies = step->kind == RD_STEP_COPY;

	if (step->into.memory != RD_OUT || step->from.memory != RD_IN)
		return false;
	*made = (struct rd_work_step){
		.kind = step->kind == RD_STEP_COMBINE ? RD_WORK_COMBINE : RD_WORK_FETCH,
		.peer = copies                        ? work->rank
			: step->kind == RD_STEP_FETCH ? step->peer
						      : step->to,
		.last = step->last,
		.in_at = at_of(cut, step->from.chunk),
		.out_at = at_of(cut, step->into.chunk),
		.count = count_of(cut, step->chunk),
	};
	return true;
}

/* The plan's signals are the work's second barrier: they must come after all that touches memory of
   others. A copy touches our own alone, and what others have no business with. */
bool rd_work_plan(struct rd_work *work, const struct rd_plan *plan, const struct rd_call *call)
{
	struct cut cut = cut_of(plan, call);
	bool parted = false;

	work->rank = call->problem.rank;
	work->size = call->problem.size;
	work->type = call->type;
	work->op = call->op;
	work->count = call->count;
	work->scales = call->terms && call->terms->has_op;
	if (work->scales)
		memcpy(&work->factors[work->rank], &call->terms->op.factor,
			sizeof(work->factors[0]));
	work->step_count = 0;
	if (work->size > RD_WORK_RANKS || !plan->mapped)
		return false;
	for (int i = 0; i < plan->step_count; i++) {
		const struct rd_step *step = &plan->steps[i];

		if (step->kind == RD_STEP_SIGNAL || step->kind == RD_STEP_AWAIT) {
			parted = true;
			continue;
		}
		if (step->kind != RD_STEP_COPY &&
			(parted || (step->kind != RD_STEP_COMBINE && step->kind != RD_STEP_FETCH)))
			return false;
		if (work->step_count == RD_WORK_STEPS || !take_step(work, &cut, step))
			return false;
	}
	return true;
}
