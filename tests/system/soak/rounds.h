/* A round: a world of 3 to 8 ranks, its calls, and the fault that one of its ranks has. */
#ifndef SOAK_ROUNDS_H
#define SOAK_ROUNDS_H

#include <stdint.h>

struct round_counts {
	long calls, deaths, pauses; /* added to */
};

/* Runs the round of this number of the sequence of a seed. 0, or 1 after a report on stderr. */
int round_run(uint64_t seed, uint64_t number, struct round_counts *counts);

#endif
