/*
 * The table of algorithms; of two with equal cost the earlier one wins. A new algorithm is one
 * file and one line in algorithms.c.
 */
#ifndef RD_ALGORITHMS_H
#define RD_ALGORITHMS_H

#include "plan/plan.h"

#define RD_ALGORITHMS_KNOWN 32

/* NULL-terminated. Plug-ins are added behind the built-in ones; its elements are atomic for
   that. */
extern const struct rd_algorithm *_Atomic rd_algorithms[RD_ALGORITHMS_KNOWN + 1];

/* Adds an algorithm of a plug-in (plugin.c), for good. RONDO_UNSUPPORTED where the table is
   full. */
int rd_algorithm_add(const struct rd_algorithm *algorithm);

/* Returns whether the algorithm can run this problem. One of a plug-in must also be proved for
   it. */
bool rd_algorithm_can(const struct rd_algorithm *algorithm, const struct rd_problem *problem);

/* The first algorithm of this name (NULL or "": any) that can run this problem over any links.
   It is never one with `direct_access`. NULL: none. */
const struct rd_algorithm *rd_algorithm_find(const struct rd_problem *problem, const char *name);

#endif
