#include "exec/values.h"

#include <string.h>

#include "base/arith.h"
#include "exec/block.h"
#include "exec/mean.h"
#include "exec/slice.h"

static void add_to_mean(struct rd_exec *exec, const struct rd_step *step, void *into,
	const void *message, const void *from, size_t count)
{
	struct rd_mean_step mean = {
		.ranks = exec->call.problem.size,
		.a_is_sum = exec->message_is_sum,
		.b_is_sum = step->from.memory != RD_IN,
		.last = step->last,
	};

	rd_mean_add(into, message, from, count, exec->call.type, mean);
}

void rd_values_combine(struct rd_exec *exec, const struct rd_step *step, void *into,
	const void *message, const void *from, size_t count)
{
	if (exec->call.op == RONDO_AVG)
		add_to_mean(exec, step, into, message, from, count);
	else
		rd_exec_reduce(exec, into, message, from, count);
}

/* The same past the caches into a slot, and into our own memory too unless `into` is NULL. */
static __attribute__((noinline)) void combine_past(struct rd_exec *exec, const struct rd_step *step,
	char *slot, char *into, const char *message, const char *from, size_t count)
{
	_Alignas(64) char block[RD_EXEC_BLOCK];
	size_t most = RD_EXEC_BLOCK / exec->element;

	for (size_t done = 0; done < count; done += most) {
		size_t at = done * exec->element, part = rd_min(most, count - done);
		char *result = into ? into + at : block;

		rd_values_combine(exec, step, result, message + at, from + at, part);
		rd_copy_past(slot + at, result, part * exec->element);
	}
	rd_copy_past_end();
}

void rd_values_combine_to_slot(struct rd_exec *exec, const struct rd_link *link,
	const struct rd_step *step, char *slot, char *into, const char *message, const char *from,
	size_t count)
{
	size_t most = RD_EXEC_BLOCK / exec->element;

	if (rd_exec_goes_past(exec, link, count * exec->element)) {
		combine_past(exec, step, slot, into, message, from, count);
		return;
	}
	if (!into) {
		rd_values_combine(exec, step, slot, message, from, count);
		return;
	}
	for (size_t done = 0; done < count; done += most) {
		size_t at = done * exec->element, part = rd_min(most, count - done);

		rd_values_combine(exec, step, into + at, message + at, from + at, part);
		rd_exec_copy(slot + at, into + at, part * exec->element);
	}
}

/* A block of all ranks' values: the mean's inputs. */
struct values {
	const char *const *sources;
	size_t at;
};

static const char *value_of(const void *context, int rank)
{
	const struct values *values = context;

	return values->sources[rank] + values->at;
}

/* Our value may lie where the result goes, so partial results go elsewhere until it is read. */
void rd_values_combine_all(
	struct rd_exec *exec, char *into, const char *const *sources, size_t at, size_t count)
{
	_Alignas(RD_SLICE_ALIGNMENT) char partial[RD_EXEC_BLOCK];
	int last = exec->call.problem.size - 1;

	if (exec->call.op == RONDO_AVG) {
		struct values values = { sources, at };

		rd_mean_all(partial, value_of, &values, last + 1, count, exec->call.type);
		memcpy(into, partial, count * exec->element);
		return;
	}
	rd_exec_reduce(exec, last == 1 ? into : partial, sources[0] + at, sources[1] + at, count);
	for (int rank = 2; rank <= last; rank++)
		rd_exec_reduce(
			exec, rank == last ? into : partial, partial, sources[rank] + at, count);
}
