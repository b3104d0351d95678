/*
 * Data sets that are drawn where no other is there, in each kind of files. They are the same on
 * every machine: image or sentence n of a seed follows from the two numbers alone.
 */
#ifndef TRAIN_DRAW_H
#define TRAIN_DRAW_H

#include <stddef.h>
#include <stdint.h>

#include "train/data/cifar.h"

#define DRAW_SIZE 28 /* pixels a side of a digit */

/* Draws digit `number`: a few strokes, whose points and whole are moved; slant, thickness, ink and
   noise vary. Returns its class. */
int draw_digit(uint8_t image[DRAW_SIZE * DRAW_SIZE], uint64_t seed, uint64_t number);
/* The same as a record of CIFAR-10. Digit and ground have colours, the digit the lighter. */
void draw_coloured_digit(uint8_t record[CIFAR_RECORD], uint64_t seed, uint64_t number);
/* Writes text: sentences of a small grammar, in which subject and verb agree and names recur. */
void draw_text(char *text /* [size] */, size_t size, uint64_t seed);

/*
 * Write the files of a set, `train_count` + `test_count` samples, into dir. For a text, the counts
 * are bytes of its parts.
 */
int draw_digits_set(const char *dir, size_t train_count, size_t test_count, uint64_t seed);
int draw_coloured_set(const char *dir, size_t train_count, size_t test_count, uint64_t seed);
int draw_text_set(const char *dir, size_t train_count, size_t test_count, uint64_t seed);

#endif
