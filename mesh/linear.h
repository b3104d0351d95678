/* Plans in which the ranks that share a block send it to each other directly. */
#ifndef RD_LINEAR_H
#define RD_LINEAR_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_linear;

#endif
