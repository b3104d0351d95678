/*
 * A plan is what one rank does in one collective, as data. Algorithms write plans
 * (rondo/algorithm.h) and do nothing else; the checker proves them, the executors run them.
 *
 * Where a value lies (input, output, or scratch memory for what only passes through) is worked out
 * in steps.c.
 */
#ifndef RD_PLAN_H
#define RD_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/collective.h"
#include "rondo/algorithm.h"

/* Which memory, and which chunk of it: counted in parts from the start of that memory. */
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
	RD_STEP_COPY, /* `into` = `from` (nothing to do in place, where they are one) */
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
	RD_STEP_MERGE, /* `into` = all that is held and `from`, in rank order; releases them */
	/* Of plans of direct access again: */
	RD_STEP_SWAP, /* `into` = `from` of rank `peer`, whose output there = our input here; both
			 are read before either is written */
	RD_STEP_SPREAD, /* `into` of all ranks = `from` of rank `peer`; not of `peer`, where that is
			   another */
};

struct rd_step {
	enum rd_step_kind kind;
	bool last; /* the value is complete: an average divides here */
	int peer; /* receives: from whom */
	int to; /* sends: to whom */
	int sender; /* FLUSH: index of the step that sent */
	int chunk; /* the chunk's number in the collective's space, the same on every rank */
	int other; /* SWAP: the chunk that goes the other way */
	struct rd_where from, into;
};

struct rd_plan {
	struct rd_problem problem; /* first: rd_problem_of() */
	const char *algorithm;
	uint8_t mark; /* the algorithm's, in signatures */
	bool direct_access; /* the algorithm's: the executor must be given everybody's buffers */
	int parts; /* chunks a block is cut into */
	int scratch_chunks; /* scratch memory the executor must bring: so many slices */
	int step_count;
	struct rd_step *steps;
	int error;

	/* While it is being written: */
	int capacity;
	struct rd_where *now; /* by chunk: where its present value lies on this rank */
	struct rd_problem real; /* what `problem` is when no view is in force */
	struct rd_view *view, *draft; /* in force, and being made; NULL: none */
};

/* ---- For those who run plans --------------------------------------------------------------- */

/*
 * Has the algorithm write the plan for this rank, then finishes it: fuses a receive with the send
 * that follows it, drops stores that nobody reads, adds the copies of what was in the input all
 * along and a FLUSH before each step that writes to memory which an earlier send may still read (in
 * place or not). The algorithm serves the problem's collective. RONDO_INVALID with the reason where
 * its steps make no sense.
 */
int rd_plan_create(struct rd_plan **plan, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem);
void rd_plan_destroy(struct rd_plan *plan);

/* The number of an algorithm in signatures, 1 to 31, by its name. Rondo's own have different ones.
 */
uint8_t rd_algorithm_mark(const char *name);

/* Chunks that this rank has of that memory. */
int rd_plan_chunks(const struct rd_plan *plan, enum rd_memory memory);

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

/* What may stand between a HOLD and its MERGE. */
static inline bool rd_step_is_before_merge(const struct rd_step *step)
{
	return step->kind == RD_STEP_HOLD || step->kind == RD_STEP_FLUSH;
}

/* Whether it puts a message on a link to `to`: data or a signal; and takes one from `peer`. */
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

/* Whether it reaches into other ranks' memory. */
static inline bool rd_step_is_direct(const struct rd_step *step)
{
	return step->kind == RD_STEP_FETCH || step->kind == RD_STEP_COMBINE ||
	       step->kind == RD_STEP_SWAP || step->kind == RD_STEP_SPREAD;
}

/* Whether a SPREAD of this plan writes to the output of `rank`. */
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

/* Whether it has a `from` of this rank's alone. */
static inline bool rd_step_reads(const struct rd_step *step)
{
	return step->kind == RD_STEP_SEND || step->kind == RD_STEP_COPY || rd_step_reduces(step);
}

/* Whether it has an `into`, and that is somewhere. */
static inline bool rd_step_writes(const struct rd_step *step)
{
	return (step->kind == RD_STEP_COPY || step->kind == RD_STEP_MERGE ||
		       rd_step_receives(step)) &&
	       step->into.memory != RD_NOWHERE;
}

#endif
