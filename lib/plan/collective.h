/* Properties of the collectives (rondo/collective.h). */
#ifndef RD_COLLECTIVE_H
#define RD_COLLECTIVE_H

#include <stdbool.h>

#include "rondo/collective.h"

const char *rd_collective_name(enum rd_collective collective);
/* Finds a collective by name, in any spelling (all_reduce, allreduce, AllReduce); -1: none. */
int rd_collective_named(const char *name);
bool rd_collective_reduces(enum rd_collective collective);
bool rd_collective_has_root(enum rd_collective collective);
/* Returns whether plans of direct access may write into other ranks' outputs. All ranks then need
   the addresses of these. */
bool rd_collective_writes_far(enum rd_collective collective);

/* The number of blocks in the whole space. */
int rd_blocks(const struct rd_problem *problem);
/* The number of blocks in this rank's input, and in its output. */
int rd_in_blocks(const struct rd_problem *problem);
int rd_out_blocks(const struct rd_problem *problem);
/* The index in this rank's input (output) of a block of the space; -1: it is not there. */
int rd_in_block(const struct rd_problem *problem, int block);
int rd_out_block(const struct rd_problem *problem, int block);
/* The inverse: the block that an input or output block of this rank is. It rises with the output's
   block. */
int rd_block_of_in(const struct rd_problem *problem, int in_block);
int rd_block_of_out(const struct rd_problem *problem, int out_block);
/* The input block that lies at the same address as this output block when the call is in place;
   -1: none does. */
int rd_alias_block(const struct rd_problem *problem, int out_block);

#endif
