/* Recursive halving and doubling: an all-reduce of few messages and few bytes. */
#ifndef RD_HALVING_H
#define RD_HALVING_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_halving;

#endif
