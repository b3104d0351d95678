/* Two threads, on two cores of their own where there are two: what most of the floor is measured
 * with. */
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H

#include <stdbool.h>

/* The first two processors that this process may use; the same twice where there is but one. */
void bench_pair_processors(int processors[2]);

/* Keeps the calling thread on one processor; false when the system refuses. */
bool bench_pair_pin(int processor);

/* Runs side(0, argument) and side(1, argument) at once, pinned. False when no thread can be had. */
bool bench_pair_run(void (*side)(int side, void *argument), void *argument);

#endif
