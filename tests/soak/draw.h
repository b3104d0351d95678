/* Random numbers from a seed: the same on every rank, and in every run. */
#ifndef DRAW_H
#define DRAW_H

#include <stdbool.h>
#include <stdint.h>

#include "reference.h"

struct draw {
	uint64_t state;
};

/* Number `index` of the sequence of a seed begins a sequence of its own. */
static inline struct draw draw_begin(uint64_t seed, uint64_t index)
{
	return (struct draw){ reference_mix(seed ^ reference_mix(index + 1)) };
}

/* From 0 to `below` - 1. */
static inline unsigned draw(struct draw *from, unsigned below)
{
	from->state += UINT64_C(0x9e3779b97f4a7c15);
	return (unsigned)(reference_mix(from->state) >> 32) % below;
}

/* True once in `times`. */
static inline bool draw_once_in(struct draw *from, unsigned times)
{
	return draw(from, times) == 0;
}

#endif
