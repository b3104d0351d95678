/* Combines along the ranks in their order, whatever the layout. */
#ifndef RD_CHAIN_H
#define RD_CHAIN_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_chain;

#endif
