/*
 * The processors of each rank (--bind).
 */
#ifndef RUN_BIND_H
#define RUN_BIND_H

#include <stdbool.h>
#include <stddef.h>

#include "run/options.h"
#include "run/processors.h"

#define SLICE_TEXT_SIZE 512

struct slice {
	enum bind bind;
	struct rd_cpus cpus;
	struct rd_cpus nodes; /* NUMA nodes of the processors, as a set of their numbers */
	int threads; /* cores for each rank that has these processors; at least 1 */
};

/*
 * Finds the slice of a rank among `size` ranks of this node, in the order of nodes and cores:
 *
 *   - BIND_NONE: all processors.
 *   - BIND_CORES: whole cores, all ranks as many, or one more. If there are more ranks than cores:
 *     hardware threads. Ranks share one if there are more ranks than those.
 *   - BIND_NUMA: a NUMA node, or several if there are more nodes than ranks.
 */
void slice_init(struct slice *slice, const struct processors *processors, enum bind bind, int size,
	int local_rank);

/*
 * Binds the calling process to the slice, and for BIND_NUMA prefers the memory of its nodes. Where
 * that fails, writes one line to stderr, and the process keeps what it had.
 */
void slice_apply(const struct slice *slice, int rank);

/* Writes "CPUs 0-3 of NUMA node 0, with its memory". */
void slice_describe(const struct slice *slice, char text[SLICE_TEXT_SIZE]);

#endif
