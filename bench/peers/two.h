/* A bare loop of two ranks that share memory. */
#ifndef PEERS_TWO_H
#define PEERS_TWO_H

#include <stddef.h>

#include "measure.h"

/* Forks two ranks that map `size` bytes of zeros, and measures what live(rank, memory) returns in
   each, as the program's arguments say. Returns the program's exit status. */
int peers_two_run(const char *program, size_t size,
	struct peers_library (*live)(int rank, void *memory), int argc, char **argv);

#endif
