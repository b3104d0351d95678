/* The machine's floor: times that no library on it can beat. */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include "bench/options.h"

/* Measures and prints; returns the exit status. */
int bench_floor_run(const struct bench_options *options);

#endif
