/*
 * The table of algorithms. The earlier of two with equal cost, or with one trait, wins. A new
 * algorithm is one file and one line in algorithms.c; no other file of lib/ names it.
 */
#ifndef RD_ALGORITHMS_H
#define RD_ALGORITHMS_H

#include "plan/plan.h"

#define RD_ALGORITHMS_KNOWN 64

/* NULL-terminated. Elements are atomic, because plug-ins are added behind Rondo's own. */
extern const struct rd_algorithm *_Atomic rd_algorithms[RD_ALGORITHMS_KNOWN + 1];

/* NULL: there is none. Unlike rd_algorithm_named(), it records no reason. */
const struct rd_algorithm *rd_algorithm_called(const char *name);

/* Adds an algorithm of a plug-in, for good. One caller at a time (plugin.c holds a lock).
   RONDO_UNSUPPORTED where the table is full. */
int rd_algorithm_add(const struct rd_algorithm *algorithm);
/* The error that rd_algorithm_add() would return; 0: none. */
int rd_algorithms_check_room(void);

#endif
