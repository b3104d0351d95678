#include "plan/print.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "base/hash.h"

static void where_text(struct rd_where where, char text[32])
{
	static const char *const names[] = { "nowhere", "in", "out", "scratch" };

	if (where.memory == RD_NOWHERE)
		snprintf(text, 32, "%s", names[RD_NOWHERE]);
	else
		snprintf(text, 32, "%s[%d]", names[where.memory], where.chunk);
}

int rd_step_print(const struct rd_step *step, char *text, size_t size)
{
	char from[32], into[32];

	where_text(step->from, from);
	where_text(step->into, into);
	switch (step->kind) {
	case RD_STEP_SEND:
		return snprintf(
			text, size, "send chunk %d, %s, to %d", step->chunk, from, step->to);
	case RD_STEP_RECV:
		return snprintf(
			text, size, "recv chunk %d from %d into %s", step->chunk, step->peer, into);
	case RD_STEP_RECV_REDUCE:
		return snprintf(text, size, "recv_reduce%s chunk %d from %d with %s into %s",
			step->last ? "_last" : "", step->chunk, step->peer, from, into);
	case RD_STEP_FORWARD:
		return snprintf(text, size, "forward chunk %d from %d to %d, keep in %s",
			step->chunk, step->peer, step->to, into);
	case RD_STEP_REDUCE_FORWARD:
		return snprintf(text, size,
			"reduce_forward%s chunk %d from %d with %s to %d, keep in %s",
			step->last ? "_last" : "", step->chunk, step->peer, from, step->to, into);
	case RD_STEP_COPY:
		return snprintf(text, size, "copy chunk %d, %s, to %s", step->chunk, from, into);
	case RD_STEP_FLUSH:
		return snprintf(text, size, "flush step %d (chunk %d to %d)", step->sender,
			step->chunk, step->to);
	case RD_STEP_SIGNAL:
		return snprintf(text, size, "signal %d", step->to);
	case RD_STEP_AWAIT:
		return snprintf(text, size, "await %d", step->peer);
	case RD_STEP_FETCH:
		return snprintf(text, size, "fetch chunk %d, %s of %d, to %s", step->chunk, from,
			step->peer, into);
	case RD_STEP_SWAP:
		return snprintf(text, size, "swap chunk %d, %s of %d, with chunk %d, to %s",
			step->chunk, from, step->peer, step->other, into);
	case RD_STEP_SPREAD:
		return snprintf(text, size, "spread chunk %d, %s of %d, to %s of all", step->chunk,
			from, step->peer, into);
	case RD_STEP_COMBINE:
		if (step->to < 0)
			return snprintf(text, size, "combine chunk %d, %s of all, into %s of all",
				step->chunk, from, into);
		return snprintf(text, size, "combine chunk %d, %s of all, into %s of %d",
			step->chunk, from, into, step->to);
	case RD_STEP_HOLD:
		return snprintf(text, size, "hold chunk %d from %d", step->chunk, step->peer);
	case RD_STEP_MERGE:
		return snprintf(text, size, "merge%s chunk %d from all with %s into %s",
			step->last ? "_last" : "", step->chunk, from, into);
	}
	return 0;
}

uint64_t rd_plan_digest(const struct rd_plan *plan, uint64_t digest)
{
	const int numbers[] = { plan->parts, plan->scratch_chunks, plan->step_count };
	char line[160];

	digest = rd_hash(digest, numbers, sizeof(numbers));
	for (int i = 0; i < plan->step_count; i++) {
		int length = rd_step_print(&plan->steps[i], line, sizeof(line));

		digest = rd_hash(digest, line, (size_t)length);
	}
	return digest;
}

int rd_step_wrong(const struct rd_plan *plan, int step, const char *format, ...)
{
	char text[160], why[300];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	rd_step_print(&plan->steps[step], text, sizeof(text));
	return rd_fail(
		RONDO_INVALID, "rank %d, step %d (%s): %s", plan->problem.rank, step, text, why);
}
