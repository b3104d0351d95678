/*
 * How far two cores are apart: the time in which a cache line goes to the other core and comes
 * back. Virtual machines move their cores about, so a figure for small messages means little
 * without it.
 */
#ifndef BENCH_LINE_H
#define BENCH_LINE_H

#include <stdint.h>

/* In memory that both sides share; zeroed before the first game. Two lines: processors fetch pairs.
 */
struct bench_line {
	_Alignas(128) _Atomic uint32_t turn;
	char rest[124];
};

/*
 * One of the two players, both of whom must call with the same number of rounds. Returns the time
 * of one round trip in nanoseconds, the median of several stretches; NAN when the other did not
 * come within two seconds.
 */
double bench_line_play(struct bench_line *line, int side, int rounds);

/* The whole game between two pinned threads of this process. */
double bench_line_round_trip_ns(void);

#endif
