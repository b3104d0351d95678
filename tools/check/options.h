/*
 * What rondo-check was asked to do.
 */
#ifndef CHECK_OPTIONS_H
#define CHECK_OPTIONS_H

#include <stdbool.h>

#define PATHS_MAX 64

struct options {
	const char *transports[PATHS_MAX], *algorithms[PATHS_MAX]; /* plug-ins; NULL at the end */
	int ranks; /* algorithms are proved for 1 to so many, and some more */
	int timeout_s; /* for one line; 0: the default of its kind */
	bool no_fork; /* one case, or the proofs, in rondo-check's own process */
	bool lists; /* the cases of the contract suite; it is done before options_read() returns */
	char **cases; /* of the contract suite, NULL at the end; none: all */
};

/* Returns false, having said so in one line, where the arguments make no sense. --help, --list and
   --version are answered here, and exit. */
bool options_read(struct options *options, int argc, char **argv);

#endif
