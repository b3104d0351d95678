/* Bandwidth and latency of one TCP connection over the loopback, between two pinned threads. */
#ifndef BENCH_LOOPBACK_H
#define BENCH_LOOPBACK_H

#include <stdbool.h>
#include <stddef.h>

/* GB/s (1e9) in each direction; with both_ways, of the slower direction while both are busy. Each
   side sends an operand of `size` bytes repeatedly, and receives into another. NAN on failure. */
double bench_loopback_stream(bool both_ways, size_t operand, double seconds);

/* Round trip of 8 bytes, in us: polling, or asleep in recv(). NAN on failure. */
double bench_loopback_round_trip_us(bool polling, int rounds);

#endif
