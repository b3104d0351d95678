/* Plans on the ring of ranks: each rank exchanges messages with its two neighbours alone. */
#ifndef RD_RING_H
#define RD_RING_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_ring;

#endif
