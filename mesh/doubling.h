/* Plans in which partners exchange and combine, at distances that double. */
#ifndef RD_DOUBLING_H
#define RD_DOUBLING_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_doubling;

#endif
