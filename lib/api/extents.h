/* Checks of the memory of calls whose blocks differ in length. */
#ifndef RD_EXTENTS_H
#define RD_EXTENTS_H

#include "api/arguments.h"

/*
 * Returns 0; RONDO_INVALID if a buffer is NULL, if this rank's block for itself has two lengths,
 * or if blocks overlap. Blocks of the input may overlap each other. A block of the output may be
 * the block of the input with which the call is in place. Or RONDO_MEMORY.
 */
int rd_extents_check(const struct rd_arguments *arguments, const struct rd_problem *problem);

#endif
