#include "exec/exec_init.h"

#include <string.h>

#include "exec/slice.h"

/* The maximum of scratch chunks, and of steps, over the channels' plans: each channel gets as
   much. */
static int most_scratch(const struct rd_plan *const *plans, int channels)
{
	int most = 0;

	for (int channel = 0; channel < channels; channel++)
		if (plans[channel]->scratch_chunks > most)
			most = plans[channel]->scratch_chunks;
	return most;
}

static int most_steps(const struct rd_plan *const *plans, int channels)
{
	int most = 0;

	for (int channel = 0; channel < channels; channel++)
		if (plans[channel]->step_count > most)
			most = plans[channel]->step_count;
	return most;
}

static bool sends_alone(const struct rd_plan *const *plans, int channels)
{
	for (int channel = 0; channel < channels; channel++)
		for (int i = 0; i < plans[channel]->step_count; i++)
			if (plans[channel]->steps[i].kind != RD_STEP_SEND &&
				plans[channel]->steps[i].kind != RD_STEP_COPY)
				return false;
	return true;
}

size_t rd_exec_scratch_size(const struct rd_plan *const *plans, int channels, size_t piece_size)
{
	return (size_t)channels * most_scratch(plans, channels) * rd_slice_most(piece_size);
}

size_t rd_exec_send_mark_count(const struct rd_plan *const *plans, int channels)
{
	return (size_t)channels * most_steps(plans, channels);
}

/* Sets the exec up for vcounts and a user operation. */
__attribute__((noinline)) static void init_unusual(struct rd_exec *exec)
{
	const struct rd_user_op *op = exec->call.user_op;

	rd_signature_add_unusual(&exec->signature, &exec->call);
	if (op && op->combine)
		exec->reduce = NULL;
	if (op && op->element_size > 0) {
		exec->call.count = exec->call.count * exec->element / op->element_size;
		exec->element = op->element_size;
	}
	exec->one_chunk = exec->one_chunk && !exec->call.vcounts;
}

void rd_exec_init(struct rd_exec *exec, const struct rd_plan *const *plans,
	const struct rd_call *call, struct rd_link *const *links, int channels, size_t piece_size,
	void *scratch, uint64_t *send_marks)
{
	exec->plans = plans;
	exec->call = *call;
	exec->links = links;
	exec->peer_buffers = NULL;
	exec->stride = exec->channels = channels;
	exec->element = rondo_type_size(call->type);
	exec->reduce = rd_reduce(call->type, call->op);
	exec->scratch = scratch;
	exec->scratch_slice = rd_slice_most(piece_size);
	exec->scratch_chunks = most_scratch(plans, channels);
	exec->send_marks = send_marks;
	exec->steps_most = most_steps(plans, channels);
	exec->signature = rd_signature_of_ordinary(call);
	exec->error = 0;
	exec->single_copy = false;
	exec->past_least = SIZE_MAX;
	exec->in_memory = false;
	exec->one_chunk = plans[0]->parts == 1;
	exec->sends_alone = sends_alone(plans, channels);
	if (!rd_call_is_ordinary(call))
		init_unusual(exec);
	exec->signature.form |= plans[0]->mark * RD_FORM_ALGORITHM;
	rd_slices_cut(exec, piece_size);
	memset(exec->cursors, 0, sizeof(exec->cursors));
	rd_exec_begin(exec);
	/* A step that an empty slice skips must not leave an old send mark for its FLUSH. */
	for (int i = 0; i < channels * exec->steps_most; i++)
		send_marks[i] = 0;
}
