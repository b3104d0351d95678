/*
 * All that a writer of an algorithm needs to know. An algorithm of Rondo's own is a line in
 * lib/exec/algorithms.c; one in a shared object ends in RONDO_PLUGIN_ALGORITHMS (below) and is named in
 * RONDO_ALGO_PLUGIN. docs/writing-an-algorithm.md says how, with an example.
 *
 * A plan is what one rank does in one collective, as data. An algorithm writes plans and does nothing
 * else; the checker proves them before they are run. It is asked for the plan of one rank at a time,
 * and must write the same plan whenever it is asked.
 *
 * An algorithm speaks of chunks alone. The collective's blocks (collective.h), each cut into `parts`
 * equal parts, make the space of chunks: chunk = block * parts + part, the same number on every rank.
 * A chunk that this rank has not written yet has its input's value; rd_send() sends its present
 * value. Where a value lies is not the algorithm's business.
 *
 * The executor runs the whole plan over successive pieces (a slice of every chunk), so a plan's
 * length grows with ranks and not with bytes.
 *
 * A link between two ranks holds two messages in each direction. What is sent when that much is
 * under way waits until the receiver has taken one.
 *
 * Appending never fails: the first mistake sticks in the plan, and whoever asked for it is told.
 */
#ifndef RONDO_ALGORITHM_H
#define RONDO_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collective.h"

/* The version of this header, in the symbol rondo_algorithm_v1 as well. */
#define RD_ALGORITHM_ABI 1

struct rd_plan;

/* One way of doing collectives. */
struct rd_algorithm {
	const char *name; /* at most 15 characters: small letters, digits and _ */
	unsigned collectives; /* bit 1 << enum rd_collective */
	/* Whether it can, for this problem; the same on every rank. NULL: always. */
	bool (*may_run)(const struct rd_problem *problem);
	bool direct_access; /* needs every rank's buffers to be addressable by every other */
	/* Where there is a layout, it is to see the ranks numbered along the line, and no layout: next
	   and previous are then near. */
	bool along_line;
	void (*write_plan)(struct rd_plan *plan);
};

/* Whose plan of what is to be written: the first member of struct rd_plan. */
static inline const struct rd_problem *rd_problem_of(const struct rd_plan *plan)
{
	return (const struct rd_problem *)(const void *)plan;
}

/* i modulo size, for i down to -size. */
static inline int rd_wrap(int i, int size)
{
	return (i % size + size) % size;
}

/* ---- Writing a plan ------------------------------------------------------------------------- */

#ifdef RD_INSIDE /* Rondo itself */
#define RD_CALL
#else /* a plug-in, which reaches them through a table */
#define RD_CALL static inline
#endif

/* Cuts every block into `parts` chunks (default 1). Before the first step. */
RD_CALL void rd_plan_parts(struct rd_plan *plan, int parts);

RD_CALL void rd_send(struct rd_plan *plan, int peer, int chunk);
RD_CALL void rd_recv(struct rd_plan *plan, int peer, int chunk);
/* The chunk becomes op(what comes from peer, what this rank has). */
RD_CALL void rd_recv_reduce(struct rd_plan *plan, int peer, int chunk);
/* The same, where the result holds every rank's contribution. */
RD_CALL void rd_recv_reduce_last(struct rd_plan *plan, int peer, int chunk);
/*
 * One message with this chunk from every other rank: when all have come, the chunk becomes what
 * they and this rank have, combined in the order of the ranks, completely. So all who merge the
 * same have the same bits. Until then each stays in its link, and takes one of its two places. For
 * RD_MERGE_MOST ranks at most, and not in a view.
 */
#define RD_MERGE_MOST 64
RD_CALL void rd_recv_merge(struct rd_plan *plan, int chunk);

/*
 * For algorithms that are `direct_access`: every rank's input and output can be addressed from here, and all
 * ranks are in the call. A rank may still read a peer's input, or write into its output, until that peer
 * has awaited its signal.
 */
/* This rank's output gets the chunk from the input of a peer. */
RD_CALL void rd_fetch(struct rd_plan *plan, int peer, int chunk);
/* Combines the chunk of all ranks' inputs, completely, into the output of one rank, or of all (-1). */
RD_CALL void rd_combine(struct rd_plan *plan, int to, int chunk);
/* The same into memory of this rank's own, whence its output gets it when the plan ends: until then
   others may read the input, which in place is the output. */
RD_CALL void rd_combine_aside(struct rd_plan *plan, int chunk);
/* Another rank writes this chunk into the output here. */
RD_CALL void rd_expect(struct rd_plan *plan, int chunk);
RD_CALL void rd_signal(struct rd_plan *plan, int peer);
RD_CALL void rd_await(struct rd_plan *plan, int peer);

/*
 * Views: how an algorithm is composed of others. A view shows some of the ranks, renumbered from 0, and
 * some of the plan's chunks, renumbered as the blocks of a collective among those ranks. While another
 * algorithm writes its steps in it, rd_problem_of(plan) is the view's (with no layout), and the peers and
 * chunks of its steps are the view's too. The checker knows nothing of this: it proves the steps that
 * come of it.
 *
 *	rd_view_begin(plan, RD_ALL_GATHER, 0);
 *	for (int i = 0; i < members; i++) {
 *		rd_view_rank(plan, member[i]);
 *		rd_view_block(plan);
 *		rd_view_chunk(plan, chunk_of(i));
 *	}
 *	rd_view_write(plan, rd_algorithm_named("ring"));
 *
 * All ranks in view must make the same one; on ranks that are not in it, nothing is written. A block
 * may have any number of chunks. The algorithm's own parts share them out; where a part has several, it
 * writes its steps several times, each time for the next chunk of every part, and a step whose part has
 * none left is dropped.
 */
/* A view of a collective, whose root is the view's rank `root` (0 where it has none). */
RD_CALL void rd_view_begin(struct rd_plan *plan, enum rd_collective collective, int root);
/* Adds a rank; it is the view's next. */
RD_CALL void rd_view_rank(struct rd_plan *plan, int rank);
/* Begins the next block; then each of its chunks. */
RD_CALL void rd_view_block(struct rd_plan *plan);
RD_CALL void rd_view_chunk(struct rd_plan *plan, int chunk);
/* What it combines is not yet complete: its rd_recv_reduce_last() is none. */
RD_CALL void rd_view_partial(struct rd_plan *plan);
/* Has the algorithm (none that is `direct_access`) write its steps, and ends the view. */
RD_CALL void rd_view_write(struct rd_plan *plan, const struct rd_algorithm *algorithm);
/* One that Rondo knows, to compose with: "ring", "doubling", ... NULL: none of this name. */
typedef const struct rd_algorithm *rd_algorithm_known;
RD_CALL rd_algorithm_known rd_algorithm_named(const char *name);

/* ---- Plug-ins ------------------------------------------------------------------------------- */

/* X(result, name, parameters, arguments): the calls above, in the order of the table through which a
   plug-in reaches them. A new call is declared above and gets a line at the end. */
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

/* What a plug-in exports, under the name rondo_algorithm_v1. */
struct rd_algorithm_plugin {
	unsigned abi; /* RD_ALGORITHM_ABI */
	uint64_t layout; /* RD_ALGORITHM_LAYOUT */
	const struct rd_algorithm *const *algorithms; /* NULL at the end */
	const struct rd_algorithm_calls **calls; /* set before anything of the plug-in is called */
};

/* Differs where two headers of one version differ in what both sides see. */
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
