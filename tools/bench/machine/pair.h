/* Two threads, pinned to two cores if there are two. They measure most of the floor. */
#ifndef BENCH_PAIR_H
#define BENCH_PAIR_H

#include <stdbool.h>

/* The first two processors of this process; the same twice if there is one. */
void bench_pair_processors(int processors[2]);

/* Pins the calling thread to one processor; false on failure. */
bool bench_pair_pin(int processor);

/* Runs side(0, argument) and side(1, argument) at once, pinned. False without threads. */
bool bench_pair_run(void (*side)(int side, void *argument), void *argument);

#endif
