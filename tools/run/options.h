/*
 * The command line of rondo-run.
 */
#ifndef RUN_OPTIONS_H
#define RUN_OPTIONS_H

#include <stdbool.h>

#define GRACE_MAX_S 86400

struct options {
	int nodes, node; /* all nodes, and the number of this one */
	int local_size; /* ranks on this node */
	const char *address; /* of node 0 */
	int port; /* the program's; 0: any free one (one node only) */
	int rondo_port; /* where rank 0 listens; 0: any free one (one node only) */
	const char *role; /* ROLE_NAME */
	int max_restarts;
	int grace_s; /* from SIGTERM to SIGKILL */
	bool standalone; /* this node is the whole job */
	bool tag; /* each line begins with its rank */
	char **command; /* the program and its arguments, NULL at the end */
};

/* False, with one line on stderr, where the arguments are wrong. --help and --version print and
   exit. */
bool options_read(struct options *options, int argc, char **argv);

#endif
