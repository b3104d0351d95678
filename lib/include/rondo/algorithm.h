/*
 * The algorithm contract: everything that the writer of an algorithm needs. An algorithm of Rondo's
 * own is a line in lib/exec/algorithms.c. One in a shared object ends in RONDO_PLUGIN_ALGORITHMS
 * (below), and RONDO_ALGO_PLUGIN names it. docs/writing-an-algorithm.md describes how, with an
 * example.
 *
 * A plan is one rank's steps in one collective, as data. An algorithm writes plans and does nothing
 * else; the checker proves them before they run. Rondo requests the plan of one rank at a time, by
 * the function for its collective. The algorithm must write the same plan at every request.
 *
 * An algorithm handles chunks alone. It cuts each of the collective's blocks (collective.h) into
 * `parts` equal parts: chunk = block * parts + part, the same number on every rank. A chunk that
 * this rank has not written yet has its input's value; rd_send() sends its present value. The
 * executor alone decides where a value lies.
 *
 * The executor runs the whole plan over successive pieces (a slice of every chunk). So a plan's
 * length grows with ranks and not with bytes.
 *
 * A link between two ranks holds two messages in each direction. A third waits until the receiver
 * has taken one.
 *
 * Appending never fails. The plan keeps the first mistake, and the caller that requested the plan
 * gets it as an error.
 */
#ifndef RONDO_ALGORITHM_H
#define RONDO_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collective.h"

/* Version of this header, in the symbol rondo_algorithm_v1 as well. */
#define RD_ALGORITHM_ABI 1

struct rd_plan;

/* One way of doing collectives. */
struct rd_algorithm {
	const char *name; /* at most 15 characters: small letters, digits and _ */
	/* By collective: writes the plan for rd_problem_of(plan). NULL: it does not serve it. */
	void (*write[RD_COLLECTIVE_COUNT])(struct rd_plan *plan);
	/* Returns whether it can run this problem; the same on every rank. NULL: always. */
	bool (*may_run)(const struct rd_problem *problem);
	/*
	 * Where there is a layout, the algorithm gets ranks renumbered along its line, and no
	 * layout. Next and previous ranks are then near.
	 */
	bool along_line;
	/* Needs every rank's buffers to be addressable by every other. */
	bool direct_access;
	/*
	 * A call that needs a trait below runs on the first algorithm in the table that has it;
	 * Rondo's own come first. The checker does not prove these traits.
	 */
	/* Combines each element in rank order. User-defined operations need it. */
	bool ordered;
	/* Each rank that wants a result combines all inputs itself: few rounds, for short
	   blocks. */
	bool redundant;
	/* Moves each block straight from its owner to its receiver. In all-to-all-v, gather-v and
	   scatter-v these two alone have its length. */
	bool pairwise;
	/* With `direct_access`: devices run its plans. These fetch, combine, swap and spread, from
	   inputs into outputs alone, and signal only after that. */
	bool on_devices;
};

/* Problem for which to write the plan: the first member of struct rd_plan. */
static inline const struct rd_problem *rd_problem_of(const struct rd_plan *plan)
{
	return (const struct rd_problem *)(const void *)plan;
}

/* i modulo size, for i down to -size. */
static inline int rd_wrap(int i, int size)
{
	int rest = i % size;

	return rest < 0 ? rest + size : rest;
}

/* ---- Writing a plan ------------------------------------------------------------------------- */

#ifdef RD_INSIDE /* Rondo itself */
#define RD_CALL
#else /* a plug-in, which calls them through a table */
#define RD_CALL static inline
#endif

/*
 * In all of these calls, `peer` is another rank of the problem, from 0, and `chunk` a chunk of its
 * collective. A wrong one is a mistake, which the plan keeps. One thread at a time uses a plan.
 */
/* Cuts every block into `parts` chunks (default 1). Call it before the first step. */
RD_CALL void rd_plan_parts(struct rd_plan *plan, int parts);

/* Sends the chunk's present value to the peer. */
RD_CALL void rd_send(struct rd_plan *plan, int peer, int chunk);
/* The chunk becomes the value received from the peer. In a reducing collective that is more than
   the peer's own contribution, which a rank must combine, not pass on. */
RD_CALL void rd_recv(struct rd_plan *plan, int peer, int chunk);
/* The chunk becomes op(value received from peer, this rank's value). */
RD_CALL void rd_recv_reduce(struct rd_plan *plan, int peer, int chunk);
/* As rd_recv_reduce(), where the result holds every rank's contribution. */
RD_CALL void rd_recv_reduce_last(struct rd_plan *plan, int peer, int chunk);
/*
 * Receives one message with this chunk from every other rank: in a reducing collective, that rank's
 * own contribution. When all have arrived, the chunk
 * becomes their values and this rank's, combined in rank order, completely. So all ranks that merge
 * the same have the same bits. Until then each message stays in its link, and takes one of its two
 * places. For RD_MERGE_MOST ranks at most, and not in a view.
 */
#define RD_MERGE_MOST 64
RD_CALL void rd_recv_merge(struct rd_plan *plan, int chunk);

/*
 * For algorithms with `direct_access`: this rank can address every rank's input and output, and all
 * ranks are in the call. A rank may still read a peer's input, or write into its output, until that
 * peer has awaited its signal.
 */
/* Copies the chunk from a peer's input to this rank's output. */
RD_CALL void rd_fetch(struct rd_plan *plan, int peer, int chunk);
/* Combines the chunk of all ranks' inputs, completely, into rank `to`'s output, or all (-1). */
RD_CALL void rd_combine(struct rd_plan *plan, int to, int chunk);
/*
 * As rd_combine() into memory of this rank's own; the end of the plan copies it to the output.
 * Until then others may read the input, which in place is the output.
 */
RD_CALL void rd_combine_aside(struct rd_plan *plan, int chunk);
/* Declares that another rank writes this chunk into the output here. */
RD_CALL void rd_expect(struct rd_plan *plan, int chunk);
/* Sends the peer an empty message: this rank has done all steps before it. */
RD_CALL void rd_signal(struct rd_plan *plan, int peer);
/* Waits for the peer's next signal. */
RD_CALL void rd_await(struct rd_plan *plan, int peer);

/*
 * Views compose an algorithm of others. A view has some of the ranks, renumbered from 0. It has
 * some of the plan's chunks, renumbered as the blocks of a collective among those ranks. While
 * another algorithm writes its steps in the view, rd_problem_of(plan) is the view's problem (with
 * no layout). The peers and chunks of its steps are the view's too. The checker gets no views: it
 * proves the steps that result.
 *
 *	rd_view_begin(plan, RD_ALL_GATHER, 0);
 *	for (int i = 0; i < members; i++) {
 *		rd_view_rank(plan, member[i]);
 *		rd_view_block(plan);
 *		rd_view_chunk(plan, chunk_of(i));
 *	}
 *	rd_view_write(plan, rd_algorithm_named("ring"));
 *
 * All ranks of a view must make the same one; on other ranks, it writes nothing. A block may have
 * any number of chunks, which the algorithm's own parts share. Where a part has several, the
 * algorithm writes its steps several times, each time for the next chunk of every part. A step
 * whose part has none left is dropped.
 */
/* Begins a view of a collective; its root is the view's rank `root` (0 where it has none). */
RD_CALL void rd_view_begin(struct rd_plan *plan, enum rd_collective collective, int root);
/* Adds a rank, as the view's next. */
RD_CALL void rd_view_rank(struct rd_plan *plan, int rank);
/* Begins the next block; rd_view_chunk() then adds each of its chunks. */
RD_CALL void rd_view_block(struct rd_plan *plan);
RD_CALL void rd_view_chunk(struct rd_plan *plan, int chunk);
/* Marks the view's results as not complete: its rd_recv_reduce_last() acts as rd_recv_reduce(). */
RD_CALL void rd_view_partial(struct rd_plan *plan);
/* Writes the algorithm's steps (an algorithm without `direct_access`), and ends the view. */
RD_CALL void rd_view_write(struct rd_plan *plan, const struct rd_algorithm *algorithm);
/* Rondo's algorithm of that name, to compose with: "ring", "doubling", ... NULL: none. */
typedef const struct rd_algorithm *rd_algorithm_known;
/* NULL, with a reason, where there is none. */
RD_CALL rd_algorithm_known rd_algorithm_named(const char *name);

/* ---- Plug-ins ------------------------------------------------------------------------------- */

/*
 * X(result, name, parameters, arguments): the calls above, in the order of the table that a plug-in
 * uses. A new call is declared above and gets a line at the end.
 */
#define RD_ALGORITHM_CALLS(X) \
	X(void, rd_plan_parts, (struct rd_plan * plan, int parts), (plan, parts)) \
	X(void, rd_send, (struct rd_plan * plan, int peer, int chunk), (plan, peer, chunk)) \
	X(void, rd_recv, (struct rd_plan * plan, int peer, int chunk), (plan, peer, chunk)) \
	X(void, rd_recv_reduce, (struct rd_plan * plan, int peer, int chunk), (plan, peer, chunk)) \
	X(void, rd_recv_reduce_last, (struct rd_plan * plan, int peer, int chunk), \
		(plan, peer, chunk)) \
	X(void, rd_fetch, (struct rd_plan * plan, int peer, int chunk), (plan, peer, chunk)) \
	X(void, rd_combine, (struct rd_plan * plan, int to, int chunk), (plan, to, chunk)) \
	X(void, rd_expect, (struct rd_plan * plan, int chunk), (plan, chunk)) \
	X(void, rd_signal, (struct rd_plan * plan, int peer), (plan, peer)) \
	X(void, rd_await, (struct rd_plan * plan, int peer), (plan, peer)) \
	X(void, rd_view_begin, (struct rd_plan * plan, enum rd_collective collective, int root), \
		(plan, collective, root)) \
	X(void, rd_view_rank, (struct rd_plan * plan, int rank), (plan, rank)) \
	X(void, rd_view_block, (struct rd_plan * plan), (plan)) \
	X(void, rd_view_chunk, (struct rd_plan * plan, int chunk), (plan, chunk)) \
	X(void, rd_view_partial, (struct rd_plan * plan), (plan)) \
	X(void, rd_view_write, (struct rd_plan * plan, const struct rd_algorithm *algorithm), \
		(plan, algorithm)) \
	X(rd_algorithm_known, rd_algorithm_named, (const char *name), (name)) \
	X(void, rd_combine_aside, (struct rd_plan * plan, int chunk), (plan, chunk)) \
	X(void, rd_recv_merge, (struct rd_plan * plan, int chunk), (plan, chunk))

struct rd_algorithm_calls {
#define RD_CALL_FIELD(result, name, parameters, arguments) result(*name) parameters;
	RD_ALGORITHM_CALLS(RD_CALL_FIELD)
#undef RD_CALL_FIELD
};

/* A plug-in exports this, under the name rondo_algorithm_v1. */
struct rd_algorithm_plugin {
	unsigned abi; /* RD_ALGORITHM_ABI */
	uint64_t layout; /* RD_ALGORITHM_LAYOUT */
	const struct rd_algorithm *const *algorithms; /* NULL at the end */
	const struct rd_algorithm_calls **calls; /* set before Rondo calls the plug-in */
};

/* Differs where two headers of one version differ in the data that both sides share. */
#define RD_ALGORITHM_LAYOUT \
	((uint64_t)sizeof(struct rd_algorithm) | (uint64_t)sizeof(struct rd_problem) << 16 | \
		(uint64_t)sizeof(struct rd_layout) << 32 | \
		(uint64_t)sizeof(struct rd_algorithm_calls) << 48)

#ifndef RD_INSIDE
extern const struct rd_algorithm_calls *rd_algorithm_calls __attribute__((visibility("hidden")));
extern const struct rd_algorithm_plugin rondo_algorithm_v1 __attribute__((visibility("default")));

#define RD_RETURN_void
#define RD_RETURN_rd_algorithm_known return
#define RD_CALL_THROUGH(result, name, parameters, arguments) \
	static inline result name parameters \
	{ \
		RD_RETURN_##result rd_algorithm_calls->name arguments; \
	}
RD_ALGORITHM_CALLS(RD_CALL_THROUGH)
#undef RD_CALL_THROUGH

/* Once in a plug-in, at the end of one file: RONDO_PLUGIN_ALGORITHMS(&mine). */
#define RONDO_PLUGIN_ALGORITHMS(...) \
	const struct rd_algorithm_calls *rd_algorithm_calls; \
	static const struct rd_algorithm *const rd_plugin_algorithms[] = { __VA_ARGS__, NULL }; \
	const struct rd_algorithm_plugin rondo_algorithm_v1 = { \
		.abi = RD_ALGORITHM_ABI, \
		.layout = RD_ALGORITHM_LAYOUT, \
		.algorithms = rd_plugin_algorithms, \
		.calls = &rd_algorithm_calls, \
	}
#endif

#endif
