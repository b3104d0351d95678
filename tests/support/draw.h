/* Random numbers of one seed. Each purpose has a stream of its own, so that a fault more or less
   changes no call. */
#ifndef DRAW_H
#define DRAW_H

#include <stdbool.h>
#include <stdint.h>

struct draw {
	uint64_t state;
};

static inline struct draw draw_from(uint64_t seed, uint64_t purpose)
{
	return (struct draw){ seed * 0xd1342543de82ef95 + purpose * 0x2545f4914f6cdd1d };
}

/* 0 to below - 1; 0 where below is 0. splitmix64: S. Vigna, public domain
   (prng.di.unimi.it/splitmix64.c). */
static inline uint64_t draw(struct draw *stream, uint64_t below)
{
	uint64_t x = stream->state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	x ^= x >> 31;
	return below ? x % below : 0;
}

static inline bool draw_one_in(struct draw *stream, uint64_t below)
{
	return draw(stream, below) == 0;
}

#endif
