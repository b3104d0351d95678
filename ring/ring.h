/* Algorithms on the ring of ranks. */
#ifndef RD_RING_H
#define RD_RING_H

#include "plan/plan.h"

/* Plans on the ring of ranks: each rank exchanges messages with its two neighbours alone. */
extern const struct rd_algorithm rd_ring;

/* Combines along the ranks in their order, whatever the layout. */
extern const struct rd_algorithm rd_chain;

#endif
