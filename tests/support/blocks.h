/*
 * Lengths and values of blocks, for tests of the v-collectives.
 */
#ifndef BLOCKS_H
#define BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIZE_MOST 8 /* ranks */

/* How long each block is. */
enum pattern { NOTHING, RISING, ONE_ALONE, ODD, LONG, PATTERNS };

/* Elements of the block that rank `from` has for rank `to`. */
size_t pattern_length(enum pattern pattern, int size, int from, int to);

/* Element i of that block. */
int32_t block_value(int from, int to, size_t i);

/* Element i of i32 that may lie at an odd address. */
void i32_put(char *at, size_t i, int32_t number);
bool i32_is(const char *at, size_t i, int32_t number);

#endif
