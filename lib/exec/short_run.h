/* Running a short call (short.h). It is inline: one function with what comes before and after it
   takes fewer lines of code, and out of the cold a call waits for each. */
#ifndef RD_SHORT_RUN_H
#define RD_SHORT_RUN_H

#include "exec/block.h"
#include "exec/short.h"

static inline void rd_short_copy_out(const struct rd_short *call, void *room, const void *from)
{
	/* The first comparison is one that a copy makes in any case. */
	if (__builtin_expect(call->size >= RD_COPY_WIDE_MIN && call->past, false)) {
		rd_copy_past(room, from, call->size);
		rd_copy_past_end();
	} else {
		rd_copy(room, from, call->size);
	}
}

/* False: there is no room. */
static inline bool rd_short_send(struct rd_short *call, const struct rd_short_step *step)
{
	struct rd_link *link = step->link;
	void *slot = link->ops->reserve(link, call->size);

	if (!slot)
		return false;
	rd_short_copy_out(call, slot, step->from);
	link->ops->commit(link, (const struct rd_tag *)&call->signature, call->size);
	return true;
}

/* False: it has not come, or is another call's. It stays in its link. */
static inline bool rd_short_receive(struct rd_short *call, const struct rd_short_step *step)
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

static inline bool rd_short_step(struct rd_short *call, const struct rd_short_step *step)
{
	/* Written only where it differs: see sign() of the executor. */
	if (call->signature.chunk != step->chunk)
		call->signature.chunk = step->chunk;
	if (!step->into)
		return rd_short_send(call, step);
	if (__builtin_expect(step->link != NULL, true))
		return rd_short_receive(call, step);
	rd_exec_copy(step->into, step->from, call->size);
	return true;
}

/* Tries a step once more for each look that the call has. */
bool rd_short_look_again(struct rd_short *call, const struct rd_short_step *step);

/* After all steps: returns as rd_short_run(). */
int rd_short_left(const struct rd_short *call);

/* Runs the call once more, with this number. Returns -1 if it is done, else the index of the plan's
   step at which the executor goes on (rd_exec_skip()). */
static inline int rd_short_run(struct rd_short *call, uint32_t number)
{
	const struct rd_short_step *step = rd_short_steps(call), *end = step + call->count;

	call->signature.number = number;
	for (; step != end; step++)
		if (!rd_short_step(call, step) && !rd_short_look_again(call, step))
			return step->index;
	return call->shares_room ? -1 : rd_short_left(call);
}

#endif
