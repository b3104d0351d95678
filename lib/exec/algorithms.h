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

#endif
