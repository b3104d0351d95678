/* A rank's Chakra trace as collectives in order, with the computations between them. */
#ifndef PLAN_CHAKRA_CALLS_H
#define PLAN_CHAKRA_CALLS_H

#include <stdint.h>

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
 * Reads a file of at most `most` nodes. A node comes behind those that it depends on; else the one
 * with the least id comes first. Computations that could overlap come one after the other.
 * Returns 0 or an error with its reason, which names the file and the node or the byte; then there
 * is nothing to free. The caller frees the list.
 */
int chakra_calls_read(struct chakra_calls *calls, const char *path, int most);

#endif
