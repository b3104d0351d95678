/* Binomial trees: few messages, for short blocks. */
#ifndef RD_BINOMIAL_H
#define RD_BINOMIAL_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_binomial;

#endif
