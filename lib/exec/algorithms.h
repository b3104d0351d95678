/*
 * The registry: the table of algorithms, in the order in which ties are decided. Adding an
 * algorithm is one file and one line in algorithms.c.
 */
#ifndef RD_ALGORITHMS_H
#define RD_ALGORITHMS_H

#include "plan/plan.h"

#define RD_ALGORITHMS_KNOWN 32

/* NULL at the end. Plug-ins add to it, behind our own, which is why its elements are atomic. */
extern const struct rd_algorithm *_Atomic rd_algorithms[RD_ALGORITHMS_KNOWN + 1];

/* Adds a plug-in's (plugin.c), for good. RONDO_UNSUPPORTED where the table is full. */
int rd_algorithm_add(const struct rd_algorithm *algorithm);

/* Whether it claims this problem and, where it came from a plug-in, is proved for it. */
bool rd_algorithm_can(const struct rd_algorithm *algorithm, const struct rd_problem *problem);

/* The first that can do this problem over any links, so none that is `direct_access`, and has this name
   (NULL or "": any); NULL: none. */
const struct rd_algorithm *rd_algorithm_find(const struct rd_problem *problem, const char *name);

#endif
