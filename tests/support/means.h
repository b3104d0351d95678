/*
 * Means of the greatest and the least numbers of every float type, as every rank of a world makes
 * them, and their bounds: right to one rounding of narrow floats, and to those of a sum of f32 and
 * f64 (rondo.h, RONDO_AVG).
 */
#ifndef MEANS_H
#define MEANS_H

#include "world.h"

/* Elements of a block: any chunk of it has all kinds. */
#define MEANS_COUNT (5 * MEANS_KINDS)
#define MEANS_KINDS 15

/* In a body: all collectives that reduce, in memory of host or device. `in` has room for a block of
   any type for each rank, and `out` for one. at_once: all_reduce combines all inputs at once. */
int means_try_type(
	struct rank_env *env, rondo_type type, unsigned char *in, unsigned char *out, bool at_once);

#endif
