/* What rondo-topo was asked to do. */
#ifndef TOPO_OPTIONS_H
#define TOPO_OPTIONS_H

#include <stdbool.h>

#define TOPO_RANKS_MAX 1024

struct topo_options {
	const char *load; /* the topology to show; NULL: this host */
	const char *dump, *svg; /* files to write; "-": standard output; NULL: not asked for */
	bool json;
	int ranks; /* whose places and paths to show; 0: none */
};

/* Returns false, having said so in one line, where the arguments make no sense. --help and
   --version are answered here, and exit. */
bool topo_options_read(struct topo_options *options, int argc, char **argv);

#endif
