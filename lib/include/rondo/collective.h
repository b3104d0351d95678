/*
 * The collectives, as data. A collective is a space of blocks (each `count` elements). Every rank
 * starts with some of them in its input and must end with some of them in its output. Algorithms,
 * the plan builder, the checker and the simulator all use this definition.
 *
 *                  blocks   in the input of           in the output of
 *   all_reduce     1        every rank                every rank
 *   reduce         1        every rank                the root
 *   broadcast      1        the root                  every rank
 *   reduce_scatter size     every rank: all blocks    block k: rank k
 *   all_gather     size     block k: rank k           every rank: all blocks
 *   gather         size     block k: rank k           the root: all blocks
 *   scatter        size     the root: all blocks      block k: rank k
 *   all_to_all     size²    block s*size+d: rank s    block s*size+d: rank d
 *   transfer       1        the root                  the target     (a send and its receive)
 *   barrier        1        every rank                every rank     (count is 0)
 */
#ifndef RONDO_COLLECTIVE_H
#define RONDO_COLLECTIVE_H

#include "layout.h"

/* X(name, text, reduces) */
#define RD_COLLECTIVES(X) \
	X(RD_ALL_REDUCE, "all_reduce", true) \
	X(RD_REDUCE, "reduce", true) \
	X(RD_BROADCAST, "broadcast", false) \
	X(RD_REDUCE_SCATTER, "reduce_scatter", true) \
	X(RD_ALL_GATHER, "all_gather", false) \
	X(RD_GATHER, "gather", false) \
	X(RD_SCATTER, "scatter", false) \
	X(RD_ALL_TO_ALL, "all_to_all", false) \
	X(RD_TRANSFER, "transfer", false) \
	X(RD_BARRIER, "barrier", true)

enum rd_collective {
#define RD_COLLECTIVE_ENUM(name, text, reduces) name,
	RD_COLLECTIVES(RD_COLLECTIVE_ENUM)
#undef RD_COLLECTIVE_ENUM
		RD_COLLECTIVE_COUNT
};

/* One rank's part in one collective, for which an algorithm writes a plan. */
struct rd_problem {
	enum rd_collective collective;
	int rank, size;
	int root; /* 0 where the collective has none */
	int target; /* transfer: the receiving rank; else 0 */
	const struct rd_layout *layout; /* NULL: ranks in order, all near; outlives the plan */
};

#endif
