/*
 * What rondo-run was asked to do.
 */
#ifndef RUN_OPTIONS_H
#define RUN_OPTIONS_H

#include <stdbool.h>

#define GRACE_MAX_S 86400

struct options {
	int nodes, node; /* nodes in all, and which one this is */
	int local_size; /* ranks on this node */
	const char *address; /* where rank 0 listens */
	int port; /* 0: any that is free (one node only) */
	int grace_s; /* from SIGTERM to SIGKILL */
	bool standalone; /* this node is the whole job */
	bool tag; /* each line begins with its rank */
	char **command; /* the program and its arguments, NULL at the end */
};

/* Returns false, having said so in one line, where the arguments make no sense. --help and
   --version are answered here, and exit. */
bool options_read(struct options *options, int argc, char **argv);

#endif
