#include "exec/short.h"

#include "base/hot_call.h"
#include "exec/block.h"
#include "exec/slice.h"

/* ---- Preparing ------------------------------------------------------------------------------ */

static struct rd_link *link_to(const struct rd_exec *exec, int peer)
{
	return exec->links[peer * exec->stride];
}

/* False: steps of this kind are the executor's. */
static bool take_step(struct rd_short *call, const struct rd_exec *exec, const struct rd_step *step)
{
	struct rd_short_step *taken = &call->steps[call->count];

	taken->link = NULL;
	taken->from = rd_slice_at(exec, step->from, 0, 0);
	taken->into = rd_slice_at(exec, step->into, 0, 0);
	taken->chunk = step->chunk;
	taken->index = (int)(step - exec->plans[0]->steps);
	switch (step->kind) {
	case RD_STEP_SEND:
		taken->link = link_to(exec, step->to);
		taken->into = NULL;
		return call->size < taken->link->send_min;
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
	       size <= RD_EXEC_BLOCK && size < exec->past_least;
}

void rd_short_init(struct rd_short *call, const struct rd_exec *exec, int looks)
{
	const struct rd_plan *plan = exec->plans[0];

	call->count = 0;
	call->looks = looks;
	if (!is_short(exec))
		return;
	call->signature = exec->signature;
	call->elements = (uint32_t)exec->piece_count;
	call->size = exec->piece_count * exec->element;
	call->reduce = exec->reduce;
	for (int i = 0; i < plan->step_count; i++) {
		/* A flush waits for sends from memory, and these are copied. */
		if (plan->steps[i].kind == RD_STEP_FLUSH)
			continue;
		/* The executor does the rest, if it is not too much for this. */
		if (call->count == RD_SHORT_STEPS || !take_step(call, exec, &plan->steps[i])) {
			call->count = 0;
			return;
		}
		const struct rd_link *link = call->steps[call->count++].link;

		/* Elsewhere a look may be a system call: the wait decides how many. */
		if (link && !link->shares_room)
			call->looks = 0;
	}
}

/* ---- Running -------------------------------------------------------------------------------- */

static bool send(struct rd_short *call, const struct rd_short_step *step, bool *unsent)
{
	struct rd_link *link = step->link;
	void *slot = link->ops->reserve(link, call->size);

	if (!slot)
		return false;
	rd_copy(slot, step->from, call->size);
	link->ops->commit(link, (const struct rd_tag *)&call->signature, call->size);
	*unsent |= link->unsent;
	return true;
}

/* False: it has not come, or is another call's. It stays in its link. */
static bool receive(struct rd_short *call, const struct rd_short_step *step)
{
	struct rd_link *link = step->link;
	struct rd_message message;

	if (!link->ops->recv(link, step->from ? NULL : step->into, call->size, &message) ||
		!rd_signature_is_same(message.tag, &call->signature) || message.size != call->size)
		return false;
	if (step->from)
		call->reduce(step->into, message.data, step->from, call->elements);
	else
		rd_exec_copy(step->into, message.data, call->size);
	link->ops->release(link);
	return true;
}

static bool run_step(struct rd_short *call, const struct rd_short_step *step, bool *unsent)
{
	/* Written only where it differs: see sign() of the executor. */
	if (call->signature.chunk != step->chunk)
		call->signature.chunk = step->chunk;
	if (!step->into)
		return send(call, step, unsent);
	if (step->link)
		return receive(call, step);
	rd_exec_copy(step->into, step->from, call->size);
	return true;
}

RD_HOT_CALL int rd_short_run(struct rd_short *call, uint32_t number)
{
	const struct rd_short_step *step = call->steps, *end = step + call->count;
	bool unsent = false;

	call->signature.number = number;
	for (; step != end; step++)
		for (int looks = call->looks; !run_step(call, step, &unsent); looks--)
			if (looks == 0)
				return step->index;
	if (call->count == 0)
		return 0;
	return unsent ? end[-1].index + 1 : -1;
}
