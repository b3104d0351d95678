/* Two binary trees, each for half of the buffer. */
#ifndef RD_TREE_H
#define RD_TREE_H

#include "plan/plan.h"

extern const struct rd_algorithm rd_tree;

#endif
