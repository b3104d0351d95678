/*
 * A symbolic run: the plans of all ranks run together, on symbols (symbol.h) instead of numbers. A
 * link holds two messages in each direction: one at the sender, in the memory that it came from,
 * and one at the receiver.
 */
#ifndef RD_SYMBOLIC_H
#define RD_SYMBOLIC_H

#include "check/races.h"
#include "check/symbol.h"

#define RD_PIPE_ROOM 2

struct rd_pipe_message {
	struct rd_symbol value;
	int step; /* of its sender */
	int clock; /* of its sender (races.h) */
};

/* One direction between two ranks. */
struct rd_pipe {
	int from, to;
	struct rd_pipe_message messages[RD_PIPE_ROOM];
	unsigned pushed, popped; /* messages ever */
};

struct rd_runner {
	const struct rd_plan *plan;
	int step; /* step_count: finished */
	bool queued;
	struct rd_symbol *out; /* output chunks, then scratch chunks */
	int out_chunks;
	unsigned *send_marks; /* by step: its pipe's `pushed` once it had sent */
};

struct rd_symbolic {
	int size;
	enum rd_collective collective;
	struct rd_runner *runners; /* by rank */

	int *pipe_numbers; /* [from * size + to]: number of the pipe plus 1; 0: none */
	struct rd_pipe *pipes;
	int pipe_count;

	int *queue; /* ranks that may be able to move */
	int queue_head, queue_length;

	struct rd_symbols symbols;
	struct rd_races races;

	struct rd_symbol *values; /* memory of all runners */
	unsigned *send_marks; /* of all runners */
};

/* plans[size], with valid fields, which outlive the run. rd_symbolic_finish() must follow, also
   after an error. */
int rd_symbolic_init(struct rd_symbolic *run, struct rd_plan *const *plans, int size);
void rd_symbolic_finish(struct rd_symbolic *run);

/* Runs all ranks until none can move. RONDO_INVALID with the reason at the first wrong step. */
int rd_symbolic_run(struct rd_symbolic *run);

/* Returns the rank that must move before this unfinished one can; -1: it can. */
int rd_symbolic_waits_for(const struct rd_symbolic *run, const struct rd_runner *runner);

static inline bool rd_runner_is_finished(const struct rd_runner *runner)
{
	return runner->step == runner->plan->step_count;
}

static inline bool rd_pipe_is_empty(const struct rd_pipe *pipe)
{
	return pipe->pushed == pipe->popped;
}

static inline struct rd_pipe_message *rd_pipe_oldest(struct rd_pipe *pipe)
{
	return &pipe->messages[pipe->popped % RD_PIPE_ROOM];
}

#endif
