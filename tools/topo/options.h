/* The command line of rondo-topo. */
#ifndef TOPO_OPTIONS_H
#define TOPO_OPTIONS_H

#include <stdbool.h>

#define TOPO_RANKS_MAX 1024

struct topo_options {
	const char *load; /* the topology to show */
	const char *from; /* a text of another program (document.h); both NULL: this host */
	const char *dump, *svg; /* files to write; "-": standard output; NULL: none */
	bool json;
	int ranks; /* ranks whose places and paths to show; 0: none */
};

/* False, with one line on stderr, where the arguments are wrong. --help and --version print and
   exit. */
bool topo_options_read(struct topo_options *options, int argc, char **argv);

#endif
