/*
 * The registry: the table of algorithms, in the order in which ties are decided. Adding an
 * algorithm is one file and one line in algorithms.c.
 */
#ifndef RD_ALGORITHMS_H
#define RD_ALGORITHMS_H

#include "plan.h"

extern const struct rd_algorithm *const rd_algorithms[]; /* NULL at the end */

bool rd_algorithm_can(const struct rd_algorithm *algorithm, const struct rd_problem *problem);

/* The first that can do this problem over any links, so none that is `mapped`, and has this name
   (NULL or "": any); NULL: none. */
const struct rd_algorithm *rd_algorithm_find(const struct rd_problem *problem, const char *name);

#endif
