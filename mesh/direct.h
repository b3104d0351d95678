/* Plans in which the ranks that share a block send it to each other directly. */
#ifndef RD_DIRECT_H
#define RD_DIRECT_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_direct;

#endif
