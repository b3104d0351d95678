/*
 * The job as its nodes agree on it for one attempt: all that the ranks of one node need to know of
 * the others.
 */
#ifndef RUN_WORLD_H
#define RUN_WORLD_H

#include "run/options.h"

/* Bytes, the last a zero. */
#define RUN_ID_SIZE 128
#define ADDRESS_SIZE 256

struct world {
	char run_id[RUN_ID_SIZE];
	int attempt; /* groups of ranks that were started before this one */
	int restarts; /* those of them that ended because a rank failed */
	int nodes, node; /* all nodes, and the number of this one */
	int size; /* ranks on all nodes */
	int first, local_size; /* the ranks of this node; nodes may differ in their number */
	char address[ADDRESS_SIZE]; /* of node 0 */
	int port; /* the program's, on node 0; 0: any free one (one node only) */
	int rondo_port; /* where rank 0 listens; 0: any free one (one node only) */
};

/* The first attempt of a job whose nodes the options name. */
void world_init(struct world *world, const struct options *options);

#endif
