/*
 * A data set of drawn digits, where no other is there. Each digit is a few strokes through some
 * points; each image moves the points, then the whole, and varies slant, thickness, ink and noise.
 * Image n of a seed is always the same.
 */
#ifndef TRAIN_DRAW_H
#define TRAIN_DRAW_H

#include <stddef.h>
#include <stdint.h>

#include "train/data/data.h"

#define DRAW_SIZE 28 /* pixels a side */

/* Draws `count` digits, numbers `first` and on; classes come in a random order. */
int draw_digits(struct data **data, size_t count, uint64_t seed, uint64_t first);

/*
 * Writes a whole set, 60,000 + 10,000 images in the four IDX files, as `dir`. The directory appears
 * at once; if another process was faster, its set stays.
 */
int draw_set(const char *dir, size_t train_count, size_t test_count, uint64_t seed);

#endif
