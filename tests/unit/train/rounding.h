/*
 * Bounds for the rounding of floats, for tests that compare them: they hold on every processor, for
 * any order of a sum, and whether or not a product is fused with a sum.
 *
 * A sum of n products errs by at most n * 2^-24 times the sum of their absolute values (Higham:
 * "Accuracy and stability of numerical algorithms", 2002, 3.1).
 */
#ifndef TRAIN_ROUNDING_H
#define TRAIN_ROUNDING_H

#include <math.h>

#include "train/base/rng.h"

/* `roundings` of numbers up to `size`, against the exact result. Two results that are both rounded
   differ by twice as much. */
#define ROUNDING(roundings, size) ((roundings)*0x1p-24 * (size))
#define ROUNDING_OF_DOUBLES(roundings, size) ((roundings)*0x1p-53 * (size))

/*
 * The same for sums of sums, as in a network, where the bound of the worst case would hide faults.
 * Errors have random signs, and grow with the root of their number: one of 1500 sums is further off
 * (Higham, Mary: "A new approach to probabilistic rounding error analysis", 2019).
 */
#define LIKELY_ROUNDING(roundings, size) (4 * sqrt(roundings) * 0x1p-24 * (size))

/* A multiple of 1/16 within `most`. Sums of up to 2^16 / most^2 products of two are exact in every
   order: no bound is needed. */
static inline float draw_coarse(struct rng *rng, float most)
{
	return roundf(rng_between(rng, -most, most) * 16) / 16;
}

#endif
