/* An all-reduce by direct access, in which every rank combines everything for itself. */
#ifndef RD_ONE_SHOT_H
#define RD_ONE_SHOT_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_one_shot;

#endif
