#include "exec/short.h"

#include <string.h>

#include "base/cache_line.h"
#include "exec/block.h"
#include "exec/short_run.h"
#include "exec/slice.h"

_Static_assert(offsetof(struct rd_short, few) == RD_CACHE_LINE, "all but the steps is a line");
_Static_assert(sizeof(struct rd_short) == 2 * RD_CACHE_LINE, "a few steps are a line");
_Static_assert(RD_SHORT_MOST <= UINT16_MAX, "the size of a short call is 16 bits");

/* Some microseconds. Out of the cold, the executor's code for waits is in no cache: a rank that
   went on there received 4 us later. "Looks of a short call" in the notes has the trial. */
#define LOOKS 400

/* ---- Preparing ------------------------------------------------------------------------------ */

static struct rd_link *link_to(const struct rd_exec *exec, int peer)
{
	return exec->links[peer * exec->stride];
}

/* False: steps of this kind are the executor's. */
static bool take_step(const struct rd_short *call, const struct rd_exec *exec,
	const struct rd_step *step, struct rd_short_step *taken)
{
	taken->link = NULL;
	taken->from = rd_slice_at(exec, step->from, 0, 0);
	taken->into = rd_slice_at(exec, step->into, 0, 0);
	taken->chunk = step->chunk;
	taken->index = (int)(step - exec->plans[0]->steps);
	switch (step->kind) {
	case RD_STEP_SEND:
		taken->link = link_to(exec, step->to);
		taken->into = NULL;
		return !taken->link->ops->send || call->size < taken->link->send_min;
	case RD_STEP_RECV:
		taken->from = NULL;
		taken->link = link_to(exec, step->peer);
		return true;
	case RD_STEP_RECV_REDUCE:
		taken->link = link_to(exec, step->peer);
		return true;
	case RD_STEP_COPY:
		return true;
	default:
		return false;
	}
}

static bool is_short(const struct rd_exec *exec)
{
	size_t size = exec->piece_count * exec->element;

	return !exec->peer_buffers && exec->channels == 1 && exec->pieces == 1 && exec->one_chunk &&
	       exec->call.op != RONDO_AVG && rd_call_is_ordinary(&exec->call) && size > 0 &&
	       size <= RD_SHORT_MOST;
}

static void take_steps(struct rd_short *call, const struct rd_exec *exec,
	struct rd_short_step taken[RD_SHORT_STEPS])
{
	const struct rd_plan *plan = exec->plans[0];

	for (int i = 0; i < plan->step_count; i++) {
		/* A flush waits for sends from memory, and these are copied. */
		if (plan->steps[i].kind == RD_STEP_FLUSH)
			continue;
		/* The executor does the rest, if it is not too much for this. */
		if (call->count == RD_SHORT_STEPS ||
			!take_step(call, exec, &plan->steps[i], &taken[call->count])) {
			call->count = 0;
			break;
		}
		const struct rd_link *link = taken[call->count++].link;

		if (link && !link->shares_room)
			call->shares_room = false;
	}
	call->shares_room &= call->count > 0;
}

void rd_short_init(struct rd_short *call, const struct rd_exec *exec, bool looks,
	struct rd_short_step many[RD_SHORT_STEPS])
{
	call->count = 0;
	call->looks = call->shares_room = call->past = false;
	if (!is_short(exec))
		return;
	call->signature = exec->signature;
	call->in = exec->call.in;
	call->out = exec->call.out;
	call->elements = (uint16_t)exec->piece_count;
	call->size = (uint16_t)(exec->piece_count * exec->element);
	call->reduce = exec->reduce;
	call->shares_room = true;
	take_steps(call, exec, many);
	if (call->count > RD_SHORT_FEW)
		call->many = many;
	else
		memcpy(call->few, many, call->count * sizeof(*many));
	/* Elsewhere a look may be a system call: the wait decides how many. */
	call->looks = looks && call->shares_room;
	call->past = call->shares_room && call->size >= exec->past_least;
}

/* ---- Running -------------------------------------------------------------------------------- */

bool rd_short_look_again(struct rd_short *call, const struct rd_short_step *step)
{
	for (int looks = call->looks ? LOOKS : 0; looks > 0; looks--)
		if (rd_short_step(call, step))
			return true;
	return false;
}

int rd_short_left(const struct rd_short *call)
{
	const struct rd_short_step *steps = rd_short_steps(call);
	bool unsent = false;

	if (call->count == 0)
		return 0;
	for (int i = 0; i < call->count; i++)
		unsent |= steps[i].link && steps[i].link->unsent;
	return unsent ? steps[call->count - 1].index + 1 : -1;
}
