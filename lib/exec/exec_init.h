/* The start of the executor: an exec for a call, or for the same call again. */
#ifndef RD_EXEC_INIT_H
#define RD_EXEC_INIT_H

#include "base/arith.h"
#include "exec/exec.h"

/* Memory that an exec of these plans, [channels], needs beside the struct. Scratch is in bytes,
   send marks in entries. */
size_t rd_exec_scratch_size(const struct rd_plan *const *plans, int channels, size_t piece_size);
size_t rd_exec_send_mark_count(const struct rd_plan *const *plans, int channels);

/*
 * Initialises an exec; allocates nothing.
 *
 * plans: [channels]; they outlive the exec. All are of one algorithm for one problem. Only the
 * order of ranks (problem.layout) may differ between channels; where it does not, all are the same
 * plan.
 *
 * piece_size: the most bytes in a message; no link may have a smaller message_max.
 */
void rd_exec_init(struct rd_exec *exec, const struct rd_plan *const *plans,
	const struct rd_call *call, struct rd_link *const *links, int channels, size_t piece_size,
	void *scratch, uint64_t *send_marks);

/* Puts every channel before its first piece. The cursors are at a first step: rd_exec_init(), and
   each call that ends, leave them there. */
static inline void rd_exec_begin(struct rd_exec *exec)
{
	exec->waiting_for = -1;
	exec->lingers = exec->copied_once = false;
	exec->running = (int)rd_min((size_t)exec->channels, exec->pieces);
	for (int channel = 0; channel < exec->channels; channel++)
		exec->cursors[channel].piece = channel;
}

/* Starts the same call again, after its end, with other buffers and number. For ordinary calls
   alone. Send marks stay: everything sent before has left. */
static inline void rd_exec_again(struct rd_exec *exec, const void *in, void *out, uint32_t number)
{
	exec->call.in = in;
	exec->call.out = out;
	exec->call.number = exec->signature.number = number;
	rd_exec_begin(exec);
}

/* Goes on with a call of one piece, whose steps before this index have been done (short.h). */
static inline void rd_exec_skip(struct rd_exec *exec, int step)
{
	exec->cursors[0].step = step;
	exec->lingers = step > 0;
}

#endif
