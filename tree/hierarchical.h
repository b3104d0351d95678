/* Inside the hosts, between them, and inside again: the fewest bytes on slow links. */
#ifndef RD_HIERARCHICAL_H
#define RD_HIERARCHICAL_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_hierarchical;

#endif
