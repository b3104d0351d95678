/*
 * Random numbers that are the same everywhere: splitmix64 (Steele, Lea, Flood: "Fast Splittable
 * Pseudorandom Number Generators", 2014). A seed and a stream number make a generator, so that
 * image 7 or epoch 3 has its numbers without drawing those before it.
 */
#ifndef TRAIN_RNG_H
#define TRAIN_RNG_H

#include <stdint.h>

struct rng {
	uint64_t state;
};

struct rng rng_make(uint64_t seed, uint64_t stream);
uint64_t rng_next(struct rng *rng);
/* 0 to bound - 1, uniform; bound is not 0. */
uint32_t rng_below(struct rng *rng, uint32_t bound);
/* low <= number < high */
float rng_between(struct rng *rng, float low, float high);
/* About normal, mean 0 and deviation 1, within -3.5 to 3.5: the sum of four uniform numbers. */
float rng_normal(struct rng *rng);

#endif
