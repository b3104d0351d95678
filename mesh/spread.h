/* An all-gather and a broadcast by direct access, in which each rank serves all. */
#ifndef RD_SPREAD_H
#define RD_SPREAD_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_mesh_spread;

#endif
