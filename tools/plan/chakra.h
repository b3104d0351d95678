/* Chakra traces of ranks: as collectives in order, as a trace to replay, and made of plans. */
#ifndef PLAN_CHAKRA_H
#define PLAN_CHAKRA_H

#include <stdbool.h>
#include <stdint.h>

#include "problem.h"
#include "trace_file.h"

#define CHAKRA_NODES_MAX (8 << 20) /* of all ranks */
#define CHAKRA_NS_MAX INT64_C(1000000000000000) /* of a rank: 11 days */

struct chakra_call {
	uint64_t node; /* id */
	int comm_type; /* enum chakra_comm_type */
	int64_t comm_size; /* bytes; 0 of a barrier */
	int64_t gap_ns; /* computations since the call before */
	int64_t duration_ns; /* as the trace has it; 0: unknown */
};

struct chakra_calls {
	struct chakra_call *list;
	int count;
	int nodes; /* of the file */
};

/*
 * chakra_calls.c. Reads a file of at most `most` nodes as collectives in order, with the
 * computations between them. A node comes behind those that it depends on; else the one with the
 * least id comes first. Computations that could overlap come one after the other.
 * Returns 0 or an error with its reason, which names the file and the node or the byte; then there
 * is nothing to free. The caller frees the list.
 */
int chakra_calls_read(struct chakra_calls *calls, const char *path, int most);

/* chakra_trace.c. Whether `source` names Chakra traces: NAME, where there is a NAME.0.et, or the
   file of a rank. */
bool chakra_is_source(const char *source);

/*
 * Reads the files NAME.RANK.et of options->source. The k-th collective of each rank is one call,
 * which begins when the rank's computations before it end. Its algorithm and its pieces are those
 * that Rondo would choose with the costs of `made`, which is laid out anew. A step of the trace
 * stands for a rank's whole part in a call. Returns 0 or an error with its reason, which names the
 * file. plan_trace_destroy() frees.
 */
int chakra_trace_read(
	struct plan_trace **trace, struct plan_problem *made, const struct plan_options *options);

/*
 * chakra_write.c. Writes the plans of all ranks to files NAME.RANK.et, where NAME is
 * options->output, for blocks of options->size in pieces of at most options->piece_size. The n-th
 * message of a rank to another has tag n on both sides. Returns 0 or an error with its reason, such
 * as that plans have direct access, or more nodes than a trace.
 */
int chakra_export(const struct plan_problem *made, const struct plan_options *options,
	const struct rd_algorithm *algorithm);

#endif
