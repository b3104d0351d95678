#include "train/base/rng.h"

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

struct rng rng_make(uint64_t seed, uint64_t stream)
{
	/* Mixed twice, so that stream n + 1 is not stream n one number later. */
	return (struct rng){ mix(mix(seed + 0x9e3779b97f4a7c15u) ^ stream) };
}

uint64_t rng_next(struct rng *rng)
{
	return mix(rng->state += 0x9e3779b97f4a7c15u);
}

uint32_t rng_below(struct rng *rng, uint32_t bound)
{
	/* Numbers below 2^64 mod bound would be too frequent. */
	uint64_t rejected = -(uint64_t)bound % bound, number;
	do {
		number = rng_next(rng);
	} while (number < rejected);
	return number % bound;
}

float rng_between(struct rng *rng, float low, float high)
{
	return low + (high - low) * (float)(rng_next(rng) >> 40) * 0x1p-24f;
}

float rng_normal(struct rng *rng)
{
	uint64_t bits = rng_next(rng);
	int32_t sum = 0;
	for (int i = 0; i < 4; i++)
		sum += (int32_t)(bits >> (16 * i) & 0xffff);
	/* Four uniform numbers on [0, 1) have mean 2 and variance 1/3. */
	return ((float)sum * 0x1p-16f - 2.0f) * 1.7320508f;
}
