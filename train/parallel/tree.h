/*
 * Sums over ranks in a fixed order: a binary tree of pairs. Ranks 0 and 1, 2 and 3, ... add their
 * vectors, then the pairs add theirs, and so on. A sum of two floats has one result, so bits depend
 * on no algorithm, transport, placement or length of a message.
 *
 * Each level halves the range that a rank works on, and gathers run the levels backwards. A rank
 * sends as many bytes as in a ring, in fewer and longer messages (Rabenseifner: "Optimization of
 * Collective Reduction Operations", 2004). The number of ranks is a power of two.
 */
#ifndef TRAIN_PARALLEL_TREE_H
#define TRAIN_PARALLEL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <rondo.h>

#include "train/world/world.h"

struct tree;

bool is_power_of_two(int number);
/* Splits a comm for each level. Collective. world->size is a power of two, above 1. */
int tree_create(struct tree **tree, const struct train_world *world);
/* Collective. After a failure of the world's comm it ends the comms of all levels. Accepts NULL. */
void tree_destroy(struct tree *tree);

/* Sums of values[count], in place, on the stream. Return rondo_errors. */
int tree_all_reduce(struct tree *tree, float *values, size_t count, rondo_stream *stream);
/* Only the range of tree_shard() holds sums afterwards, and the rest is undefined. */
int tree_reduce_scatter(struct tree *tree, float *values, size_t count, rondo_stream *stream);
/* Copies each rank's range of tree_shard() to all ranks. */
int tree_all_gather(struct tree *tree, float *values, size_t count, rondo_stream *stream);

/* Narrows the range *first, *count to that of a rank. Ranges begin at multiples of 64 bytes. */
void tree_shard(int size, int rank, size_t *first, size_t *count);

#endif
