/* The ranks that a reason names. */
#ifndef SIMULATION_NAMED_H
#define SIMULATION_NAMED_H

/* Their bits. *first: the first one; -1: none. */
unsigned named_ranks(const char *text, int *first);

#endif
