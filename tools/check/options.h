/*
 * The command line of rondo-check.
 */
#ifndef CHECK_OPTIONS_H
#define CHECK_OPTIONS_H

#include <stdbool.h>

#define PATHS_MAX 64

struct options {
	const char *transports[PATHS_MAX], *algorithms[PATHS_MAX]; /* plug-ins; NULL at the end */
	int ranks; /* algorithms are proved for 1 to `ranks` ranks, and some larger sizes */
	int timeout_s; /* for one line of the report; 0: the default */
	bool measures; /* the speed of links, in place of the cases */
	bool no_fork; /* one case, or the proofs, in rondo-check's own process */
	bool lists; /* list the cases of the contract suite; options_read() does it */
	char **cases; /* cases of the contract suite, NULL at the end; none: all */
};

/* False, with one line on stderr, where the arguments are wrong. --help, --list and --version print
   and exit. */
bool options_read(struct options *options, int argc, char **argv);

#endif
