/*
 * A data set for those who have none at hand: handwritten-looking digits, drawn. Each digit is a
 * few strokes through a handful of points; every image moves the points, then the whole, and varies
 * slant, thickness, ink and noise. Image n of a seed is always the same.
 */
#ifndef TRAIN_DRAW_H
#define TRAIN_DRAW_H

#include <stddef.h>
#include <stdint.h>

#include "data.h"

#define DRAW_SIZE 28 /* pixels a side */

/* Draws `count` digits, numbers `first` and on; classes come in a random order. */
int draw_digits(struct data **data, size_t count, uint64_t seed, uint64_t first);

/*
 * Writes a whole set, 60,000 + 10,000 images in the four IDX files, as `dir`. It appears there all
 * at once; when somebody else was faster, theirs stays.
 */
int draw_set(const char *dir, size_t train_count, size_t test_count, uint64_t seed);

#endif
