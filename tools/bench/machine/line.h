/*
 * The distance of two cores: the round trip of a cache line. Virtual machines move their cores, so
 * a result for small messages needs it beside it.
 */
#ifndef BENCH_LINE_H
#define BENCH_LINE_H

#include <stdint.h>

/* In shared memory, zeroed before the first call. Two lines: processors fetch pairs of lines. */
struct bench_line {
	_Alignas(128) _Atomic uint32_t turn;
	char rest[124];
};

/*
 * Runs one of the two sides; both must pass the same number of rounds. Returns the time of one
 * round trip in ns, the median of several stretches; NAN if the other side did not start within 2
 * s.
 */
double bench_line_ping_pong(struct bench_line *line, int side, int rounds);

/* Both sides, on two pinned threads of this process. */
double bench_line_round_trip_ns(void);

#endif
