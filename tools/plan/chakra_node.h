/*
 * Files of Chakra execution traces 1.0.0: a graph of one rank's computations and communications, as
 * protobuf messages with their lengths before them. A file is untrusted.
 */
#ifndef PLAN_CHAKRA_NODE_H
#define PLAN_CHAKRA_NODE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* NodeType of the schema. */
enum chakra_type {
	CHAKRA_INVALID,
	CHAKRA_METADATA,
	CHAKRA_MEM_LOAD,
	CHAKRA_MEM_STORE,
	CHAKRA_COMP,
	CHAKRA_SEND,
	CHAKRA_RECV,
	CHAKRA_COLL
};

/* CollectiveCommType. */
enum chakra_comm_type {
	CHAKRA_ALL_REDUCE,
	CHAKRA_REDUCE,
	CHAKRA_ALL_GATHER,
	CHAKRA_GATHER,
	CHAKRA_SCATTER,
	CHAKRA_BROADCAST,
	CHAKRA_ALL_TO_ALL,
	CHAKRA_REDUCE_SCATTER,
	CHAKRA_REDUCE_SCATTER_BLOCK,
	CHAKRA_BARRIER,
	CHAKRA_COMM_TYPE_COUNT
};

/* A node, with the attributes that count here; -1, NULL: it has none of that name. */
struct chakra_node {
	uint64_t id;
	const char *name;
	int type;
	const uint64_t *ctrl_deps, *data_deps; /* ids of nodes that end before it begins */
	size_t ctrl_dep_count, data_dep_count;
	uint64_t duration_us;
	int64_t comm_type, comm_size; /* comm_size: bytes */
	int64_t comm_src, comm_dst, comm_tag;
	int64_t tensor_size; /* bytes; of a COMP, and only written: with one operation for each 4 */
	const char *group; /* pg_name */
};

/* Each node begins as this. */
#define CHAKRA_NODE \
	((struct chakra_node){ .comm_type = -1, \
		.comm_size = -1, \
		.comm_src = -1, \
		.comm_dst = -1, \
		.comm_tag = -1, \
		.tensor_size = -1 })

/* Write the message that a file begins with, and a node. Return 0, or RONDO_UNSUPPORTED where this
   program was built without protobuf-c. `out` records other errors. */
int chakra_begin(FILE *out);
int chakra_put(const struct chakra_node *node, FILE *out);

/*
 * Calls take() for each node of a file, in its order, until that returns an error. The node's
 * pointers end with the call. Returns that error; RONDO_INVALID, with the byte at which the
 * message begins that is none; RONDO_SYSTEM; RONDO_MEMORY; or RONDO_UNSUPPORTED as above.
 */
typedef int chakra_take(void *context, const struct chakra_node *node);
int chakra_read(const char *path, chakra_take *take, void *context);

#endif
