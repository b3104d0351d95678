/*
 * A plan: the steps of one rank in one collective, as data. Algorithms write plans
 * (rondo/algorithm.h), the checker proves them, and executors run them.
 *
 * steps.c decides where a value lies: in the input, in the output, or in scratch memory.
 */
#ifndef RD_PLAN_H
#define RD_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/collective.h"
#include "rondo/algorithm.h"

/* A place: a memory, and a chunk in it, counted in parts from the start of that memory. */
enum rd_memory { RD_NOWHERE, RD_IN, RD_OUT, RD_SCRATCH };

struct rd_where {
	enum rd_memory memory;
	int chunk;
};

enum rd_step_kind {
	RD_STEP_SEND, /* send `from` to `to` */
	RD_STEP_RECV, /* `into` = message from `peer` */
	RD_STEP_RECV_REDUCE, /* `into` = message from `peer` op `from` */
	RD_STEP_FORWARD, /* RECV, and the same value on to `to`; `into` may be nowhere */
	RD_STEP_REDUCE_FORWARD, /* RECV_REDUCE, and the result on to `to`; `into` may be nowhere */
	RD_STEP_COPY, /* `into` = `from`; in place both are one, and the step does nothing */
	RD_STEP_FLUSH, /* wait until step `sender`'s message has left the memory it came from */
	/* Direct access to peers' memory, in plans of algorithms that are `direct_access`: */
	RD_STEP_SIGNAL, /* an empty message to `to` */
	RD_STEP_AWAIT, /* an empty message from `peer` */
	RD_STEP_FETCH, /* `into` = `from` of rank `peer` */
	RD_STEP_COMBINE, /* all ranks' `from`, in rank order, into `into` of rank `to`; -1: of all
			  */
	/* (scratch memory is this rank's alone) */
	/* One message from every other rank at once: a HOLD for each, then a MERGE. */
	RD_STEP_HOLD, /* a message from `peer`, which stays in its link */
	RD_STEP_MERGE, /* `into` = the messages of all HOLDs and `from`, in rank order */
	/* Direct access again: */
	RD_STEP_SWAP, /* `into` = `from` of rank `peer`, whose output there = our input here; both
			 are read before either is written */
	RD_STEP_SPREAD, /* `into` of all ranks = `from` of rank `peer`; not of `peer`, where that is
			   another */
};

struct rd_step {
	enum rd_step_kind kind;
	bool last; /* the value is complete: an average divides here */
	int peer; /* the rank that it receives from */
	int to; /* the rank that it sends to */
	int sender; /* FLUSH: index of the step that sent */
	int chunk; /* the chunk's number in the collective's space, the same on every rank */
	int other; /* SWAP: the chunk that goes the other way */
	struct rd_where from, into;
};

struct rd_plan {
	struct rd_problem problem; /* first: rd_problem_of() */
	const char *algorithm;
	uint8_t mark; /* the algorithm's, in signatures */
	bool direct_access; /* the algorithm's: the executor needs all ranks' buffers */
	int parts; /* chunks a block is cut into */
	int scratch_chunks; /* scratch memory that the executor provides, in slices */
	int step_count;
	struct rd_step *steps;
	int error;

	/* While it is being written: */
	int capacity;
	struct rd_where *now; /* by chunk: the place of its present value on this rank */
	struct rd_problem real; /* `problem` outside all views */
	struct rd_view *view, *draft; /* in force; not yet written. NULL: none */
};

/* ---- For executors ------------------------------------------------------------------------- */

/*
 * Calls the algorithm to write the plan for this rank, then finishes it (finish.h). The algorithm
 * must serve the problem's collective. RONDO_INVALID with the reason where its steps make no sense.
 */
int rd_plan_create(struct rd_plan **plan, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem);
/* The same without FLUSH steps, which take no time: for those who time a plan and never run it.
   Plans of thousands of ranks are written in two thirds of the time. */
int rd_plan_create_to_time(struct rd_plan **plan, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem);
void rd_plan_destroy(struct rd_plan *plan);

/* The number of an algorithm in signatures, 1 to 31: a hash of its name. Rondo's own differ. */
uint8_t rd_algorithm_mark(const char *name);

/* The number of chunks of that memory on this rank. */
static inline int rd_plan_chunks(const struct rd_plan *plan, enum rd_memory memory)
{
	switch (memory) {
	case RD_IN:
		return rd_in_blocks(&plan->problem) * plan->parts;
	case RD_OUT:
		return rd_out_blocks(&plan->problem) * plan->parts;
	case RD_SCRATCH:
		return plan->scratch_chunks;
	default:
		return 0;
	}
}

static inline bool rd_step_receives(const struct rd_step *step)
{
	return step->kind == RD_STEP_RECV || step->kind == RD_STEP_RECV_REDUCE ||
	       step->kind == RD_STEP_FORWARD || step->kind == RD_STEP_REDUCE_FORWARD ||
	       step->kind == RD_STEP_HOLD;
}

static inline bool rd_step_sends(const struct rd_step *step)
{
	return step->kind == RD_STEP_SEND || step->kind == RD_STEP_FORWARD ||
	       step->kind == RD_STEP_REDUCE_FORWARD;
}

/* Returns whether the step may stand between a HOLD and its MERGE. */
static inline bool rd_step_is_before_merge(const struct rd_step *step)
{
	return step->kind == RD_STEP_HOLD || step->kind == RD_STEP_FLUSH;
}

/* Return whether it puts a message (data or a signal) on a link to `to`; takes one of `peer`. */
static inline bool rd_step_puts(const struct rd_step *step)
{
	return rd_step_sends(step) || step->kind == RD_STEP_SIGNAL;
}

static inline bool rd_step_takes(const struct rd_step *step)
{
	return rd_step_receives(step) || step->kind == RD_STEP_AWAIT;
}

static inline bool rd_step_is_signal(const struct rd_step *step)
{
	return step->kind == RD_STEP_SIGNAL || step->kind == RD_STEP_AWAIT;
}

/* Returns whether a reducing collective's message is more than one rank's contribution: no rank
   passes contributions on, as the checker proves. */
static inline bool rd_step_sends_sum(const struct rd_step *step)
{
	return step->kind != RD_STEP_SEND || step->from.memory != RD_IN;
}

/* Returns whether it accesses other ranks' memory. */
static inline bool rd_step_is_direct(const struct rd_step *step)
{
	return step->kind == RD_STEP_FETCH || step->kind == RD_STEP_COMBINE ||
	       step->kind == RD_STEP_SWAP || step->kind == RD_STEP_SPREAD;
}

/* Returns whether a SPREAD of this plan writes to the output of `rank`. */
static inline bool rd_spread_reaches(
	const struct rd_plan *plan, const struct rd_step *step, int rank)
{
	return rank != step->peer || rank == plan->problem.rank;
}

static inline bool rd_step_reduces(const struct rd_step *step)
{
	return step->kind == RD_STEP_RECV_REDUCE || step->kind == RD_STEP_REDUCE_FORWARD ||
	       step->kind == RD_STEP_MERGE;
}

/* Returns whether it reads `from` in this rank's memory alone. */
static inline bool rd_step_reads(const struct rd_step *step)
{
	return step->kind == RD_STEP_SEND || step->kind == RD_STEP_COPY || rd_step_reduces(step);
}

/* Returns whether it writes `into` in this rank's memory. */
static inline bool rd_step_writes(const struct rd_step *step)
{
	return (step->kind == RD_STEP_COPY || step->kind == RD_STEP_MERGE ||
		       rd_step_receives(step)) &&
	       step->into.memory != RD_NOWHERE;
}

#endif
