/* A binomial tree for each chunk, all at once. */
#ifndef RD_PAT_H
#define RD_PAT_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_pat;

#endif
